// The search of pages that are opened from a folder. Browsers start no worker there, so the same script runs in a hidden
// frame. (The theme's plugin `offline` would load a script of this name from the network.)

if (location.protocol === "file:") {
  // What a script expects of a worker. importScripts returns a promise, which the search awaits.
  const surroundings = `
    window.postMessage = (data) => parent.postMessage({ ofWorker: name, data }, "*");
    window.importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise((done, fail) => {
      const script = document.createElement("script");
      Object.assign(script, { src: url, onload: done, onerror: fail });
      document.body.append(script);
    })), Promise.resolve());`;
  let started = 0;

  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const name = `worker-${started++}`;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.name = name;
      document.body.append(this.frame);
      const inside = this.frame.contentDocument;
      inside.open();
      inside.write(`<body><script>${surroundings}</script><script src="${url}"></script></body>`);
      inside.close();
      this.ready = new Promise((done) => this.frame.contentWindow.addEventListener("load", done));
      this.heard = ({ source, data }) => {
        if (source !== this.frame.contentWindow || data?.ofWorker !== name) return;
        const event = new MessageEvent("message", { data: data.data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      };
      addEventListener("message", this.heard);
    }

    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) })));
    }

    terminate() {
      removeEventListener("message", this.heard);
      this.frame.remove();
    }
  };
}
