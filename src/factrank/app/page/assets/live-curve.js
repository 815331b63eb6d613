// The training curve: recall and hallucinations above, loss below, over epochs, with a cursor. Plain SVG.
//
// Snapshots are denser at the start, where a layer changes fastest, so the axis of epochs is a square root.

import { count, number } from "./names.js";

const SVG = "http://www.w3.org/2000/svg";
const LEFT = 44, RIGHT = 12, UPPER = [10, 150], LOWER = [176, 236], HEIGHT = 262;
const SERIES = [
  ["recall", "recall", (p) => p.recall],
  ["confident", "confident recall", (p) => p.recall_tau],
  ["invented", "hallucinations", (p) => (p.missing ? p.hallucinations / p.missing : null)],
];
export const LEGEND = SERIES.map(([kind, label]) => [kind, label]);

function draw(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** A curve in `place`; `onpick(i)` is called with the index of the point that the reader points at. */
export function makeCurve(place, onpick) {
  let points = [], last = 1, at = 0, width = 600;
  const svg = draw("svg", { class: "training-curve", role: "img", height: HEIGHT });
  place.replaceChildren(svg);
  const x = (epoch) => LEFT + (width - LEFT - RIGHT) * Math.sqrt(epoch / last);

  function show() {
    width = Math.max(240, place.clientWidth);
    svg.setAttribute("width", width);
    svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    svg.replaceChildren(...fractions(), ...losses(), ...epochs(), ...cursor());
    const now = points[at];
    svg.setAttribute("aria-label", now ? `Training curve up to epoch ${count(points.at(-1).epoch)}. ${told(now)}` : "Training curve");
  }

  const fraction = (value) => UPPER[1] - (UPPER[1] - UPPER[0]) * value;
  const path = (list, kind) => draw("path", { class: `line ${kind}`, d: list.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("") });
  const label = (a, b, text, anchor = "end") => draw("text", { x: a, y: b, "text-anchor": anchor }, text);
  const rule = (y) => draw("line", { class: "rule", x1: LEFT, x2: width - RIGHT, y1: y, y2: y });

  function* fractions() {
    for (const value of [0, 0.5, 1]) { yield rule(fraction(value)); yield label(LEFT - 7, fraction(value) + 4, `${100 * value}%`); }
    for (const [kind, , of] of SERIES) {
      const list = points.filter((p) => of(p) !== null).map((p) => [x(p.epoch), fraction(of(p))]);
      if (list.length) yield path(list, kind);
    }
  }

  function* losses() {
    const found = points.filter((p) => p.loss > 0 && Number.isFinite(p.loss));
    const low = Math.floor(Math.log10(Math.min(...found.map((p) => p.loss), 1))), high = Math.ceil(Math.log10(Math.max(...found.map((p) => p.loss), 1)));
    const y = (loss) => LOWER[1] - ((LOWER[1] - LOWER[0]) * (Math.log10(loss) - low)) / (high - low || 1);
    for (const power of new Set([low, high])) { yield rule(y(10 ** power)); yield label(LEFT - 7, y(10 ** power) + 4, power < -2 || power > 3 ? `1e${power}` : number(10 ** power)); }
    yield label(LEFT + 4, LOWER[0] - 5, "loss", "start");
    if (found.length) yield path(found.map((p) => [x(p.epoch), y(p.loss)]), "loss");
  }

  function* epochs() {
    const ticks = [0, 0.04, 0.25, 1].map((part) => Math.round(last * part));
    for (const tick of new Set(ticks)) yield label(x(tick), HEIGHT - 8, count(tick), tick === last ? "end" : "middle");
    yield label(LEFT - 7, HEIGHT - 8, "epoch");
  }

  function* cursor() {
    const now = points[at];
    if (!now) return;
    yield draw("line", { class: "cursor", x1: x(now.epoch), x2: x(now.epoch), y1: UPPER[0], y2: LOWER[1] });
    for (const [kind, , of] of SERIES) if (of(now) !== null) yield draw("circle", { class: `dot-${kind}`, cx: x(now.epoch), cy: fraction(of(now)), r: 4 });
  }

  function pick(event) {
    if (!points.length || !(event.buttons & 1)) return;
    const where = event.clientX - svg.getBoundingClientRect().left;
    let best = 0;
    points.forEach((p, i) => { if (Math.abs(x(p.epoch) - where) < Math.abs(x(points[best].epoch) - where)) best = i; });
    onpick(best);
  }
  svg.addEventListener("pointerdown", pick);
  svg.addEventListener("pointermove", pick);
  new ResizeObserver(show).observe(place);
  return {
    set(next, epochs, index) { points = next; last = Math.max(1, epochs); at = index; show(); },
  };
}

/** A point in words. */
export function told(p) {
  const made = p.missing ? `, ${count(p.hallucinations)} of ${count(p.missing)} missing entries hallucinated` : "";
  return `Epoch ${count(p.epoch)}: loss ${p.loss === null ? "not a number" : number(p.loss)}, ${(100 * p.recall).toFixed(p.recall === 1 ? 0 : 1)}% recalled${made}`;
}
