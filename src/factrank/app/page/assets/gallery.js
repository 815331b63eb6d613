// Published reproductions: pick a paper, see its statements with verdicts, its figures and its trials.

import { draw } from "./charts.js";
import { choice, fill, h, segments } from "./dom.js";
import { makeTrials } from "./trials.js";
import { count, number } from "./names.js";

const TONES = { reproduced: "yes", "not reproduced": "no", undecided: "warn", measured: "quiet", "by construction": "quiet", "not comparable": "warn" };
const MANY_POINTS = 1500;

export function makeGallery(model, themes, onchange) {
  const state = { paper: 0, study: 0, verdict: "all", text: "" };
  const element = h("div", { class: "view gallery", hidden: true });
  let shownOf = null, watch = null;

  const papers = () => model.payload.gallery?.papers || [];
  const paper = () => papers()[state.paper], study = () => paper().studies[state.study];

  function build() {
    const pick = segments("Paper", papers().map((one, i) => [i, one.label]), state.paper, (i) => { Object.assign(state, { paper: i, study: 0 }); build(); onchange(); });
    const studies = choice("Study", paper().studies.map((one, i) => [String(i), one.title]), String(state.study), (i) => { state.study = Number(i); showStudy(); onchange(); });
    studies.select.id = "gallery-study";
    studies.element.firstChild.setAttribute("for", "gallery-study");
    const body = h("div", { class: "study" });
    const all = paper().studies.flatMap((one) => one.claims), held = (verdict) => all.filter((claim) => claim.verdict === verdict).length;
    fill(element, h("div", { class: "overview" }, pick.element, h("h1", {}, paper().title),
      h("p", { class: "subtitle" }, `${paper().paper}: ${paper().studies.length} studies, ${all.length} claims; `,
        Object.keys(TONES).filter(held).map((verdict, i) => [i ? ", " : "", h("b", { class: TONES[verdict] }, String(held(verdict))), ` ${verdict}`]),
        paper().link ? [". ", h("a", { href: paper().link, rel: "noreferrer" }, "The paper")] : null)),
    h("div", { class: "row pickers" }, studies.element), body);
    showStudy();
  }

  function showStudy() {
    const body = element.querySelector(".study"), one = study();
    const statements = h("div", { class: "statements" });
    const present = ["all", ...Object.keys(TONES).filter((verdict) => one.claims.some((claim) => claim.verdict === verdict))];
    if (!present.includes(state.verdict)) state.verdict = "all";
    const pick = segments("Verdict", present.map((verdict) => [verdict, verdict]), state.verdict, (verdict) => { state.verdict = verdict; list(); });
    const list = () => fill(statements, one.claims.filter((claim) => state.verdict === "all" || claim.verdict === state.verdict).map(statement));
    list();
    const figures = h("div", { class: "figures" });
    fill(body,
      h("section", { class: "card", "aria-labelledby": "study-title" }, h("h2", { id: "study-title" }, one.title), one.figure ? h("p", { class: "soft" }, one.figure) : null,
        h("p", {}, one.question), h("details", {}, h("summary", {}, "How it was done"), h("p", {}, one.method)),
        h("div", { class: "row" }, h("h3", {}, "Statements"), present.length > 2 ? pick.element : null), statements),
      one.figures.length ? h("section", { class: "card", "aria-labelledby": "figures-title" }, h("h2", { id: "figures-title" }, "Figures"), figures) : null,
      makeTrials(one.trials));
    showFigures(figures, one);
  }

  /** Figures are drawn when they come into view. */
  function showFigures(place, one) {
    watch?.disconnect();
    watch = new IntersectionObserver((entries) => entries.filter((entry) => entry.isIntersecting).forEach(({ target }) => {
      watch.unobserve(target);
      drawFigure(target, one.figures[Number(target.dataset.figure)]);
    }), { rootMargin: "200px" });
    fill(place, one.figures.map((figure, i) => {
      const chart = h("div", { class: "chart", role: "img", "aria-label": figure.alternative, "data-figure": String(i) });
      watch.observe(chart);
      return h("figure", {}, h("figcaption", {}, figure.title), chart, figure.caption ? h("p", { class: "soft" }, figure.caption) : null);
    }));
  }

  async function drawFigure(place, figure) {
    try {
      await draw(place, fitted(figure.spec, place.clientWidth), themes[document.documentElement.dataset.theme]);
    } catch (error) {
      place.textContent = `This figure could not be drawn: ${error.message}`;
    }
  }

  function show() {
    if (!papers().length) return;
    const key = `${document.documentElement.dataset.theme}`;
    if (shownOf === key) return;
    shownOf = key;
    build();
  }

  document.addEventListener("themechange", () => { if (!element.hidden) show(); });
  let waiting = 0, width = 0;
  new ResizeObserver(() => {
    if (element.hidden || !element.clientWidth || Math.abs(element.clientWidth - width) < 24) return;
    const isFirst = width === 0;
    width = element.clientWidth;
    clearTimeout(waiting);
    if (!isFirst) waiting = setTimeout(() => { shownOf = null; show(); }, 200);
  }).observe(element);

  return {
    element,
    show,
    link: () => (papers().length ? { paper: paper().name, study: study().name } : {}),
    open({ paper: name, study: wanted }) {
      const at = papers().findIndex((one) => one.name === name);
      if (at < 0) return;
      const place = papers()[at].studies.findIndex((one) => one.name === wanted);
      if (at === state.paper && place === state.study) return;
      Object.assign(state, { paper: at, study: Math.max(0, place) });
      shownOf = null;
    },
  };
}

function statement(claim) {
  const value = claim.value === null ? "no value" : number(claim.value) + (claim.low === null ? "" : ` [${number(claim.low)}, ${number(claim.high)}]`);
  return h("article", { class: "statement" },
    h("p", { class: "line" }, h("span", { class: `chip ${TONES[claim.verdict] || "quiet"}` }, claim.verdict), h("strong", {}, claim.statement)),
    h("dl", { class: "reasons" }, h("dt", {}, "published"), h("dd", {}, claim.published || "–", claim.place ? h("span", { class: "soft" }, ` (${claim.place}${claim.extension ? "; our extension" : ""})`) : null),
      h("dt", {}, "ours"), h("dd", {}, value, h("span", { class: "soft" }, ` ${count(claim.seeds ?? 0)} seeds; ${claim.why}`))),
    claim.quote || claim.note ? h("details", {}, h("summary", {}, "Source"), claim.quote ? h("blockquote", {}, claim.quote) : null, claim.note ? h("p", { class: "soft" }, claim.note) : null) : null);
}

/** A specification at the width of the screen. */
function fitted(spec, width) {
  const own = structuredClone(spec);
  if (own.facet) {
    const columns = Math.max(1, Math.min(own.columns, Math.floor(width / 250)));
    own.columns = columns;
    own.spec.width = own.spec.height = Math.max(120, Math.min(300, Math.floor((width - 70) / columns) - 24));
  } else {
    const isSquare = own.usermeta && own.usermeta.square;
    own.autosize = { type: "fit", contains: "padding" };
    own.width = Math.min(width, isSquare ? 460 : 760);
    own.height = isSquare ? own.width : Math.round(Math.min(360, Math.max(260, width * 0.6)));
  }
  return own;
}
