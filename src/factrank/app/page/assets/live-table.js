// Bring a table: upload or drop a file, paste text, or take a sample.

import { call } from "./live-api.js";
import { choice, fill, freshId, h } from "./dom.js";
import { count } from "./names.js";

const FORMATS = ".csv,.tsv,.tab,.txt,.jsonl,.ndjson,.nt,.nq,.ttl,.parquet,.pq,.gz";

/** The chooser of a table. `onread(job)` is called with the job that reads it; `fail(message)` with what is wrong. */
export function makeTableChooser(state, { onread, fail }) {
  const limits = state.limits;
  let layout = "auto";
  const how = choice("Layout", [["auto", "One fact per row"], ["wide", "One key per row, one query per column"]], layout, (value) => { layout = value; });
  const multi = checkbox("Several values for one (key, query)");
  const header = checkbox("The first line names the columns", true);
  const file = h("input", { type: "file", accept: FORMATS, class: "hidden", id: freshId("file") });
  const drop = h("label", { class: "drop", for: file.id }, h("strong", {}, "Choose a file"), h("span", {}, " or drop it here"),
    h("span", { class: "soft" }, `CSV, TSV, JSON Lines, N-Triples, N-Quads, Turtle or Parquet; up to ${count(Math.round(limits.upload_bytes / 1e6))} MB`));
  const text = h("textarea", { id: freshId("paste"), rows: "5", spellcheck: "false", placeholder: "key,query,value\nOslo,country,Norway\nLima,country,Peru" });
  const paste = h("button", { type: "button", onclick: () => send(new Blob([text.value]), text.value.split("\n")[0].includes("\t") ? "pasted.tsv" : "pasted.csv") }, "Read this text");

  async function send(body, name) {
    if (!body.size) { fail("There is nothing to read: the table is empty."); return; }
    if (body.size > limits.upload_bytes) {
      fail(`${count(Math.ceil(body.size / 1e6))} MB are too much: this page takes tables of up to ${count(Math.round(limits.upload_bytes / 1e6))} MB. Use factrank on the command line for larger ones.`);
      return;
    }
    const options = new URLSearchParams({ name, layout, multi: multi.input.checked, header: header.input.checked });
    await attempt(() => call("PUT", `table?${options}`, { body }));
  }
  async function attempt(ask) {
    try { onread(await ask()); } catch (error) { fail(error.message); }
  }

  file.addEventListener("change", () => { if (file.files[0]) send(file.files[0], file.files[0].name); file.value = ""; });
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files[0]) send(event.dataTransfer.files[0], event.dataTransfer.files[0].name);
    });
  }
  const samples = h("div", { class: "samples" }, state.samples.map((sample) =>
    h("button", { type: "button", class: "sample", onclick: () => attempt(() => call("POST", "sample", { json: { name: sample.name } })) },
      h("strong", {}, sample.name), h("span", { class: "soft" }, `${count(sample.facts)} facts`), h("span", {}, sample.title))));
  return h("div", { class: "chooser" },
    h("div", { class: "sources" },
      h("div", {}, file, drop),
      h("div", { class: "field" }, h("label", { for: text.id }, "Or paste a table"), text, h("div", {}, paste))),
    h("details", {}, h("summary", {}, "How the table is read"), h("div", { class: "row" }, how.element, header.element, multi.element)),
    h("h3", {}, "Or start with a sample"), samples);
}

function checkbox(label, checked = false) {
  const input = h("input", { type: "checkbox", id: freshId("check"), checked });
  return { input, element: h("div", { class: "check" }, input, h("label", { for: input.id }, label)) };
}

/** What was assumed or dropped when a table was read. */
export function readingNotes(place, result) {
  const notes = [...(result.notes || [])];
  if (result.duplicates) notes.push(`${count(result.duplicates)} repeated facts were dropped.`);
  fill(place, notes.map((note) => h("p", { class: "soft" }, note)));
}
