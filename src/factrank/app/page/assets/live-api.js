// The API of the server that this page comes from: the same address, with its token.

const url = (path) => new URL(`api/${path}`, location.href.split(/[?#]/)[0]);

/** Send a request. Resolves to the JSON of the answer; rejects with the message of the server. */
export async function call(method, path, { json, body } = {}) {
  const headers = json === undefined ? {} : { "Content-Type": "application/json" };
  let answer;
  try {
    answer = await fetch(url(path), { method, headers, body: json === undefined ? body : JSON.stringify(json) });
  } catch {
    throw new Error("The server does not answer. Is factrank app still running?");
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.error || `The server answered with status ${answer.status}.`);
  return found;
}

export const addressOf = (path) => url(path).href;
export const fileOf = (job, name) => call("GET", `jobs/${job}/files/${name}`);

const ENDED = ["done", "failed", "cancelled"];

/** Follow a job: `onevent` is called with each event. Resolves to the last one; rejects if the server is gone. */
export function follow(job, onevent) {
  return new Promise((resolve, reject) => {
    const source = new EventSource(url(`jobs/${job}/events`));
    let failures = 0;
    source.onmessage = ({ data }) => {
      failures = 0;
      const event = JSON.parse(data);
      onevent(event);
      if (ENDED.includes(event.event)) { source.close(); resolve(event); }
    };
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED && ++failures < 4) return; // it connects again by itself
      source.close();
      reject(new Error("The connection to the server is lost. Is factrank app still running?"));
    };
  });
}
