// Watch a layer learn: the curve grows while it trains, and a scrubber shows the layer at each epoch below.

import { fileOf } from "./live-api.js";
import { h } from "./dom.js";
import { LEGEND, makeCurve, told } from "./live-curve.js";

const PLAY_SECONDS = 8;

/** The view of a training run. `showLayer(parts, epoch)` shows the weights of an epoch in the explorer. */
export function makeTraining({ showLayer, showFinal }) {
  let job = null, points = [], epochs = 1, at = 0, following = true, timer = 0, wanted = -1, busy = false, ended = false;
  const cache = new Map();
  const place = h("div", { class: "curve-place" });
  const scrubber = h("input", { type: "range", id: "epoch", min: "0", max: "0", step: "1" });
  const play = h("button", { type: "button", onclick: () => (timer ? stop() : start()) }, "Play");
  const words = h("output", { for: "epoch", class: "told" });
  const element = h("div", { class: "training", hidden: true },
    h("ul", { class: "legend-list", "aria-hidden": "true" }, LEGEND.map(([kind, label]) => h("li", { class: kind }, label))),
    place, h("div", { class: "scrub" }, play, h("div", { class: "field" }, h("label", { for: "epoch" }, "Look at the layer at an epoch"), scrubber)), words);
  const curve = makeCurve(place, (i) => { stop(); go(i, true); });
  scrubber.addEventListener("input", () => { stop(); go(Number(scrubber.value), true); });

  function begin(id, n) {
    stop();
    Object.assign(element, { hidden: false });
    job = id; epochs = n; points = []; at = 0; following = true; ended = false; wanted = -1;
    cache.clear();
    words.textContent = "";
    play.disabled = true;
    curve.set(points, epochs, 0);
  }

  function add(point) {
    points.push(point);
    scrubber.max = String(points.length - 1);
    if (following) go(points.length - 1, false);
    else curve.set(points, epochs, at);
  }

  function end() {
    ended = true;
    play.disabled = points.length < 2;
    if (at === points.length - 1) go(at, false);
  }

  function go(i, byHand) {
    if (byHand) following = i === points.length - 1;
    at = i;
    scrubber.value = String(i);
    scrubber.setAttribute("aria-valuetext", told(points[i]));
    words.textContent = told(points[i]);
    curve.set(points, epochs, i);
    wanted = i;
    fetchWanted();
  }

  // One request at a time, always for the newest wish: epochs that flew by are not fetched.
  async function fetchWanted() {
    if (busy) return;
    busy = true;
    while (wanted >= 0) {
      const i = wanted, own = job, epoch = points[i].epoch;
      wanted = -1;
      if (ended && i === points.length - 1) { await showFinal(); continue; }
      try {
        if (!cache.has(epoch)) cache.set(epoch, await fileOf(own, `epoch-${epoch}.json`));
      } catch { continue; } // the session has a new table
      if (own === job) await showLayer(cache.get(epoch), epoch);
    }
    busy = false;
  }

  function start() {
    let i = at >= points.length - 1 ? 0 : at;
    go(i, true);
    timer = setInterval(() => { i += 1; go(i, true); if (i >= points.length - 1) stop(); }, (1000 * PLAY_SECONDS) / points.length);
    play.textContent = "Pause";
  }
  function stop() {
    clearInterval(timer);
    timer = 0;
    play.textContent = "Play";
  }
  return { element, begin, add, end, job: () => job, hide: () => { stop(); element.hidden = true; job = null; wanted = -1; } };
}
