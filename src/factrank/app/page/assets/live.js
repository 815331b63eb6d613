// The live page: bring a table, then measure, construct, train and plan on the server of this machine.
//
// Jobs run there; everything below the workbench is the explorer, which computes in the browser. The API is described at
// the head of application.py.

import { addressOf, call, fileOf, follow } from "./live-api.js";
import { fill, freshId, h, segments } from "./dom.js";
import { start } from "./main.js";
import { count, number, shown } from "./names.js";
import { makeTableChooser, readingNotes } from "./live-table.js";
import { makeTraining } from "./live-training.js";

const KEEP_ALIVE = 240_000;
const KINDS = [["measure", "Measure"], ["construct", "Construct"], ["train", "Train"], ["plan", "Plan"]];
const ABOUT = {
  measure: "How large is the table really? Proved bounds on three ranks of its tensor.",
  construct: "Write all facts into the smallest layer by formulas, without training, and prove that it recalls them.",
  train: "Train a layer by gradient descent and watch it memorise, and hallucinate where the table has no fact.",
  plan: "How large must a layer be for this table? Proved, and expected from a million trained layers.",
};

export async function connect() {
  const { explorer } = start();
  const root = document.getElementById("live");
  root.hidden = false;
  document.querySelector("footer").textContent = "Made by factrank. This page talks only to the server on this machine that you started; uploads are deleted when it stops.";
  let state;
  try { state = await call("GET", "state"); } catch (error) { fill(root, h("p", { class: "message no", role: "alert" }, error.message)); return; }
  makeWorkbench(root, explorer, state);
  setInterval(() => call("GET", "state").catch(() => {}), KEEP_ALIVE);
}

function makeWorkbench(root, explorer, state) {
  const empty = explorer.model.payload;
  let table = null, payload = empty, results = {}, running = null, kind = "train";

  const message = h("div", { class: "message-place" });
  const say = (text, tone = "no") => fill(message, text ? h("p", { class: `message ${tone}`, role: tone === "no" ? "alert" : "status" }, text) : null);
  const heading = h("h1", {}, "Bring a table of facts");
  const intro = h("p", { class: "subtitle" }, "Measure it, write it into an attention layer, or watch a layer learn it. Everything stays on this machine.");
  const chooser = h("section", { class: "card", "aria-label": "Table" },
    makeTableChooser(state, { onread: (job) => { say(""); run(job, "Reading the table"); }, fail: (text) => say(text) }));
  const change = h("button", { type: "button", "aria-expanded": "false", onclick: () => open(chooser.hidden) }, "Change table");
  const forget = h("button", { type: "button", onclick: async () => { await call("DELETE", "session").catch(() => {}); location.reload(); } }, "Delete my data");
  const bar = h("div", { class: "live-bar", hidden: true }, change, forget);
  const notes = h("div", { class: "notes" });

  const status = makeStatus(() => running && call("DELETE", `jobs/${running}`).catch((error) => say(error.message)));
  const training = makeTraining({
    showLayer: (parts, epoch) => showEpoch(parts, epoch),
    showFinal: () => explorer.update(composed()),
  });
  const forms = { measure: measureForm(), construct: constructForm(), train: trainForm(), plan: planForm() };
  const tabs = segments("What to do", KINDS, kind, (value) => choose(value));
  const about = h("p", { class: "soft" }), form = h("div"), outcome = h("div", { class: "outcome", "aria-live": "polite" });
  const downloads = h("div", { class: "downloads" });
  const bench = h("section", { class: "card bench", hidden: true, "aria-label": "Workbench" },
    tabs.element, about, form, status.element, outcome, training.element, downloads);
  fill(root, heading, intro, chooser, bar, message, notes, bench);

  function open(shows) {
    chooser.hidden = !shows;
    change.setAttribute("aria-expanded", String(shows));
  }

  function choose(value) {
    kind = value;
    tabs.set(value);
    about.textContent = ABOUT[value];
    fill(form, forms[value].element);
    fill(outcome, results[value]?.shown);
    training.element.hidden = value !== "train" || !training.job();
  }

  // ---------------------------------------------------------------- jobs

  async function ask(name, options, text) {
    say("");
    occupy(true); // one job at a time
    try { await run(await call("POST", "jobs", { json: { kind: name, table: table.id, options } }), text, options); } catch (error) { say(error.message); }
    occupy(running !== null);
  }

  function occupy(isBusy) { for (const one of Object.values(forms)) one.button.disabled = isBusy; }

  async function run(job, text, options = {}) {
    running = job.id;
    occupy(true);
    bench.hidden = false;
    status.begin(text, options.budget);
    fill(outcome);
    if (job.kind === "train") training.begin(job.id, options.epochs);
    let last;
    try {
      last = await follow(job.id, (event) => {
        if (event.event === "waiting") status.say("waiting for its turn");
        if (event.event === "running") status.say("starting a worker");
        if (event.event === "progress") status.say(event.text);
        if (event.event === "point") { status.at(event.epoch / options.epochs, `epoch ${count(event.epoch)} of ${count(options.epochs)}`); training.add(event); }
      });
    } catch (error) { last = { event: "failed", message: error.message }; }
    const isLast = running === job.id, isOurs = job.kind === "read" ? isLast : job.table === table?.id; // only a new table comes in between
    if (isLast) { running = null; status.end(); bench.hidden = !table; }
    let isTaken = false;
    if (last.event === "done" && isOurs) {
      try { await DONE[job.kind](job.id, last.result, options); isTaken = true; } catch (error) { last = { event: "failed", message: error.message }; }
    }
    if (!isTaken && job.kind === "train" && training.job() === job.id) { training.hide(); await explorer.update(composed()); } // what was there before
    if (isLast && last.event !== "done") {
      fill(outcome, results[kind]?.shown);
      say(last.event === "cancelled" ? "Cancelled." : last.message, last.event === "cancelled" ? "quiet" : "no");
    }
    occupy(running !== null);
  }

  const DONE = {
    async read(id, result) { await adopt(id, result); choose(kind); },
    async measure(id, result) { await took("measure", id, measured(result)); await explorer.update(composed()); },
    async construct(id, result) {
      training.hide();
      await took("construct", id, constructed(result), result.certified);
      delete results.train;
      offer();
      await explorer.update(composed());
    },
    async train(id, result) { await took("train", id, trained(result)); delete results.construct; training.end(); },
    async plan(id, result) { await took("plan", id, planned(result, (sizes) => { forms.train.set(sizes); choose("train"); })); },
  };

  async function took(name, id, shown, hasLayer = name === "train") {
    const parts = name === "plan" ? {} : await partsOf(id, payload.database.fingerprint);
    payload = { ...payload, ...parts };
    results[name] = { id, shown, hasLayer };
    if (kind === name) fill(outcome, shown);
    offer();
  }

  /** The parts of the payload that a job has made; they must be about the facts shown, which the reader may have changed meanwhile. */
  async function partsOf(id, facts) {
    const { about, ...parts } = await fileOf(id, "payload.json");
    if (about !== (facts ?? parts.database.fingerprint) || (facts && facts !== payload.database?.fingerprint)) throw new Error("This result is about another table than the one shown. Reload the page.");
    return parts;
  }

  async function adopt(id, result) {
    const parts = await partsOf(id);
    table = { id, result };
    results = {};
    payload = { ...empty, ...parts };
    document.title = `${shown(result.title, 120)} · factrank explorer`;
    training.hide();
    heading.hidden = intro.hidden = true;
    bar.hidden = bench.hidden = false;
    open(false);
    readingNotes(notes, result);
    forms.train.set(result.suggested);
    fill(outcome);
    offer();
    await explorer.update(composed());
  }

  const composed = () => ({ ...payload, tau: explorer.model.tau });

  /** Show the weights of an epoch: the first time with a new layer, then by replacing its weights. */
  async function showEpoch(parts, epoch) {
    const sizes = (of) => JSON.stringify(Object.values(of).map((part) => part.shape));
    const current = explorer.model.payload, job = training.job();
    if (current.layer && sizes(current.layer.parts) === sizes(parts)) {
      if (current.certificate) await explorer.update({ ...current, tau: explorer.model.tau, certificate: null }); // it is about another layer
      if (training.job() === job) await explorer.setParts(parts, `epoch ${count(epoch)}`);
      return;
    }
    const numbers = Object.values(parts).reduce((sum, part) => sum + part.shape.reduce((a, b) => a * b, 1), 0);
    const layer = { words: "layer in training", parameters: numbers, precision: "float32", attention: "softmax", parts };
    await explorer.update({ ...composed(), certificate: null, layer });
  }

  /** Links to what can be downloaded. */
  function offer() {
    const layer = results.train || results.construct;
    const link = (id, name, text) => h("a", { href: addressOf(`jobs/${id}/files/${name}`), download: name }, text);
    const jobs = [results.measure, layer].filter(Boolean).map((one) => one.id).join(",");
    fill(downloads, table ? [h("h3", {}, "Download"), h("ul", {},
      [layer?.hasLayer && link(layer.id, "layer.safetensors", "Layer (.safetensors)"),
        link(table.id, "facts.csv", "Facts (.csv)"),
        results.train && link(results.train.id, "curve.csv", "Training curve (.csv)"),
        results.measure && link(results.measure.id, "measurement.json", "Measurement (.json)"),
        results.plan && link(results.plan.id, "plan.json", "Plan (.json)"),
        h("a", { href: addressOf(`explorer.html?table=${table.id}&jobs=${jobs}`), download: "explorer.html" }, "This page, to keep (.html)"),
      ].filter(Boolean).map((one) => h("li", {}, one)))] : null);
  }

  // ---------------------------------------------------------------- forms

  function makeForm(fields, label, submit) {
    const button = h("button", { type: "submit", class: "primary" }, label);
    const element = h("form", { class: "row", onsubmit: (event) => { event.preventDefault(); submit(); } }, fields, button);
    return { element, button };
  }

  function measureForm() {
    const budget = numberField("Seconds to spend", 5, { min: 0, max: 120, step: 1 });
    return makeForm([budget.element], "Measure", () => ask("measure", { budget: budget.value() }, "Measuring"));
  }

  function constructForm() {
    const aim = selectField("Smallest in", [["parameters", "parameters"], ["heads", "heads"], ["d_model", "d_model"]]);
    const precision = selectField("Weights", [["float32", "float32"], ["float64", "float64"], ["bfloat16", "bfloat16"]]);
    return makeForm([aim.element, precision.element], "Construct", () => ask("construct", { minimise: aim.value(), precision: precision.value() }, "Constructing"));
  }

  function trainForm() {
    const sizes = Object.fromEntries([["d_model", 512], ["n_heads", 64], ["d_qk", 512], ["d_vo", 512]].map(([name, max]) => [name, numberField(name === "n_heads" ? "heads" : name, 4, { min: 1, max, step: 1 })]));
    const epochs = numberField("Epochs", 2000, { min: 1, max: 50000, step: 1 }), rate = numberField("Learning rate", 0.01, { min: 0.00001, max: 1, step: "any" }), seed = numberField("Seed", 0, { min: 0, max: 2147483647, step: 1 });
    const fields = [...Object.values(sizes), epochs, rate, seed].map((field) => field.element);
    const made = makeForm(fields, "Train", () => {
      const options = Object.fromEntries(Object.entries(sizes).map(([name, field]) => [name, field.value()]));
      ask("train", { ...options, epochs: epochs.value(), learning_rate: rate.value(), seed: seed.value(), tau: explorer.model.tau }, "Training");
    });
    made.element.classList.add("many");
    return { ...made, set: (found) => { for (const [name, field] of Object.entries(sizes)) field.set(found[name]); } };
  }

  function planForm() {
    const recall = numberField("Recall to reach", 0.95, { min: 0.01, max: 1, step: "any" });
    return makeForm([recall.element], "Plan", () => ask("plan", { recall: recall.value() }, "Planning"));
  }

  // A page that was reloaded shows what its session has.
  (async () => {
    if (!state.table) return;
    await adopt(state.table.id, state.table.result);
    choose(kind);
    for (const job of state.jobs) {
      if (running !== null) return; // the reader is faster, and has chosen another table
      if (job.table !== table.id || job.state === "failed" || job.state === "cancelled") continue;
      choose(job.kind);
      await run(job, "Continuing", job.options);
    }
  })().catch((error) => say(error.message));
}

function numberField(label, value, limits) {
  const input = h("input", { type: "number", id: freshId("number"), value: String(value), required: true, inputmode: "decimal", ...limits });
  return { value: () => Number(input.value), set: (next) => { input.value = String(next); }, element: h("div", { class: "field" }, h("label", { for: input.id }, label), input) };
}

function selectField(label, options) {
  const select = h("select", { id: freshId("choice") }, options.map(([value, text]) => h("option", { value }, text)));
  return { value: () => select.value, element: h("div", { class: "field" }, h("label", { for: select.id }, label), select) };
}

/** What runs now: a text, a bar and a button to cancel it. */
function makeStatus(cancel) {
  const text = h("p", { role: "status" }), bar = h("div", { class: "progress" }, h("span"));
  const element = h("div", { class: "job", hidden: true }, text, h("button", { type: "button", onclick: cancel }, "Cancel"), bar);
  let title = "", timer = 0;
  const at = (part, note) => { bar.classList.remove("endless"); bar.firstChild.style.setProperty("width", `${100 * Math.min(1, part)}%`); if (note) say(note); };
  const say = (note) => { text.textContent = `${title}: ${shown(note, 120)}`; };
  return {
    element, at, say,
    begin(name, seconds) {
      title = name;
      element.hidden = false;
      text.textContent = name;
      bar.classList.add("endless");
      bar.firstChild.style.removeProperty("width");
      const since = Date.now();
      clearInterval(timer);
      if (seconds) timer = setInterval(() => at((Date.now() - since) / 1000 / (seconds + 2)), 200);
    },
    end() { clearInterval(timer); element.hidden = true; },
  };
}

// -------------------------------------------------------------------- results in words

const between = ([low, high]) => (low === high ? count(low) : `${count(low)} to ${count(high)}`);

function measured({ rank, completion_rank: completion, effective_rank: effective }) {
  return h("dl", { class: "figures-row" }, [["rank", rank], ["completion rank", completion], ["effective rank", effective]].map(([name, bounds]) => h("div", {}, h("dt", {}, name), h("dd", {}, between(bounds)))));
}

const words = (shape) => `d_model ${shape.d_model}, ${shape.n_heads} head${shape.n_heads > 1 ? "s" : ""}, d_qk ${shape.d_qk}, d_vo ${shape.d_vo}`;

function constructed(result) {
  const proof = result.certified ? h("span", { class: "chip yes" }, "certified") : h("span", { class: "chip no" }, "not certified, so there is no file");
  return h("p", {}, proof, ` ${result.form}: ${words(result.shape)}; ${count(result.parameters)} parameters, ${number(result.bits_per_parameter)} bits of facts each`);
}

function trained(result) {
  const proof = result.certified ? h("span", { class: "chip yes" }, "every fact, certified") : result.recall === 1 ? h("span", { class: "chip yes" }, "every fact") : h("span", { class: "chip warn" }, `${(100 * result.recall).toFixed(1)}% of the facts`);
  const made = result.missing ? `; ${count(result.hallucinations)} of ${count(result.missing)} missing entries hallucinated at τ = ${result.tau}` : "";
  return h("p", {}, proof, ` ${words(result.shape)}; ${count(result.parameters)} parameters${made}`);
}

function planned(result, use) {
  const button = (sizes) => h("button", { type: "button", onclick: () => use(sizes) }, "Use");
  const row = (one, cells) => h("tr", {}, [one.n_heads, one.d_model, one.d_vo, one.parameters].map((size) => h("td", { class: "figure" }, count(size))), cells.map((cell) => h("td", {}, cell)));
  const grid = (caption, names, rows) => h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, h("table", {}, h("caption", {}, caption), h("thead", {}, h("tr", {}, ["heads", "d_model", "d_vo", "parameters", ...names].map((name) => h("th", { scope: "col" }, name)))), h("tbody", {}, rows)));
  const interval = (one) => (one.recall_low === null ? "beyond the atlas" : `${one.recall_low.toFixed(2)} to ${one.recall_high.toFixed(2)}`);
  return h("div", { class: "plans" },
    result.least_parameters > 1 && h("p", { class: "soft" }, `Fewer than ${count(result.least_parameters)} float32 parameters cannot hold so many facts, for nearly all such tables.`),
    grid("Trained: expected recall", ["recall", "interval", "sizes"], result.trained.map((one) => row(one, [one.recall.toFixed(3), interval(one), button(one)]))),
    grid("Proved: closed forms recall everything", ["form"], result.proved.map((one) => row(one, [one.form]))));
}
