// A matrix on a canvas: only what is visible is drawn, so it may have any number of rows and columns. Names stay in
// place while cells scroll. One real element, the active cell, moves with the arrow keys and is what screen readers read.

import { h, perFrame } from "./dom.js";
import { token } from "./colours.js";
import { shown } from "./names.js";

const NAME_SIZE = 11;

/**
 * show(spec): rows, columns, rowName(i), columnName(j), colour(i, j), text(i, j), and optionally short(i, j) (drawn in
 * the cell), ink(i, j) (its colour), least (the least width of a cell), selected: [i, j], note, onSelect(i, j).
 */
export function makeMatrix(label) {
  const canvas = h("canvas", { "aria-hidden": "true" });
  const spacer = h("div", { class: "spacer", "aria-hidden": "true" });
  const cells = [0, 1].map(() => h("div", { role: "gridcell", class: "cell", tabindex: "-1" }));
  const rows = cells.map((cell) => h("div", { role: "row", hidden: true }, cell));
  const tip = h("div", { class: "tip", "aria-hidden": "true", hidden: true });
  const grid = h("div", { class: "matrix", role: "grid", "aria-label": label, "aria-readonly": "true" }, canvas, spacer, rows);
  const zoomed = (factor) => () => { zoom = Math.min(4, Math.max(0.12, zoom * factor)); layOut(); };
  const tools = h("div", { class: "zoom", role: "group", "aria-label": `Zoom of ${label}` },
    h("button", { type: "button", "aria-label": "Zoom out", onclick: zoomed(1 / 1.5) }, "−"),
    h("button", { type: "button", "aria-label": "Zoom in", onclick: zoomed(1.5) }, "+"));
  const note = h("p", { class: "soft" });
  const element = h("div", { class: "matrix-frame" }, grid, tip, h("div", { class: "foot" }, note, tools));
  let spec = null, zoom = 1, active = [0, 0], turn = 0, size = null;

  function layOut() {
    if (!spec || !grid.clientWidth) return;
    const width = grid.clientWidth, narrow = width < 480;
    const longest = (n, name) => { let most = 0; for (let i = 0; i < Math.min(n, 400); i++) most = Math.max(most, name(i).length); return most; };
    const left = Math.min(narrow ? 92 : 170, 18 + 6.4 * longest(spec.rows, spec.rowName));
    const room = Math.max(60, width - left - 2);
    const w = Math.max(3, zoom * Math.min(spec.short ? 150 : 64, Math.max(spec.short ? (spec.least || 60) : 18, room / Math.max(spec.columns, 1))));
    const flat = w > 6.2 * Math.min(14, longest(spec.columns, spec.columnName)) + 6;
    const top = flat ? 24 : Math.min(96, 22 + 5.2 * longest(spec.columns, spec.columnName));
    const tall = Math.max(3, zoom * Math.min(30, Math.max(19, (430 - top) / Math.max(spec.rows, 1))));
    size = { left, top, w, h: tall, flat };
    grid.style.setProperty("height", `${Math.min(460, top + spec.rows * tall + (spec.columns * w > room ? 16 : 3))}px`);
    spacer.style.setProperty("width", `${left + spec.columns * w}px`);
    spacer.style.setProperty("height", `${top + spec.rows * tall}px`);
    place(false);
    draw();
  }

  const draw = perFrame(() => {
    if (!size || !spec) return;
    const width = grid.clientWidth, height = grid.clientHeight, ratio = window.devicePixelRatio || 1;
    if (!width) return;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.setProperty("width", `${width}px`);
    canvas.style.setProperty("height", `${height}px`);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.clearRect(0, 0, width, height);
    drawCells(pen, width, height);
    drawNames(pen, width, height);
  });

  function visible(width, height) {
    const { left, top, w, h: tall } = size;
    return {
      i0: Math.max(0, Math.floor(grid.scrollTop / tall)),
      i1: Math.min(spec.rows, Math.ceil((grid.scrollTop + height - top) / tall)),
      j0: Math.max(0, Math.floor(grid.scrollLeft / w)),
      j1: Math.min(spec.columns, Math.ceil((grid.scrollLeft + width - left) / w)),
      x: (j) => left + j * w - grid.scrollLeft,
      y: (i) => top + i * tall - grid.scrollTop,
    };
  }

  function drawCells(pen, width, height) {
    const { left, top, w, h: tall } = size, { i0, i1, j0, j1, x, y } = visible(width, height);
    const gap = w > 7 && tall > 7 ? 1 : 0, radius = gap ? 2 : 0;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, width, height);
    pen.clip();
    pen.font = `${NAME_SIZE}px ${FONT}`;
    pen.textBaseline = "middle";
    const onColour = token("on-colour");
    for (let i = i0; i < i1; i++) {
      for (let j = j0; j < j1; j++) {
        const colour = spec.colour(i, j);
        if (colour) {
          pen.fillStyle = colour;
          if (radius) { pen.beginPath(); pen.roundRect(x(j), y(i), w - gap, tall - gap, radius); pen.fill(); }
          else pen.fillRect(x(j), y(i), w, tall);
        }
        if (spec.short && w > 40 && tall > 13) {
          const text = spec.short(i, j);
          if (text) { pen.fillStyle = spec.ink ? spec.ink(i, j) : onColour; pen.fillText(fitted(pen, text, w - 10), x(j) + 5, y(i) + tall / 2); }
        }
      }
    }
    if (spec.selected) {
      const [i, j] = spec.selected;
      pen.strokeStyle = token("ink");
      pen.lineWidth = 2;
      if (j === null) pen.strokeRect(left + 1, y(i), Math.min(width - left, spec.columns * w) - 3, tall - gap);
      else pen.strokeRect(x(j), y(i), w - gap, tall - gap);
    }
    pen.restore();
  }

  function drawNames(pen, width, height) {
    const { left, top, w, h: tall, flat } = size, { i0, i1, j0, j1, x, y } = visible(width, height);
    pen.font = `${NAME_SIZE}px ${FONT}`;
    pen.fillStyle = token("soft");
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    const everyRow = Math.ceil(12 / tall), everyColumn = Math.ceil(12 / w);
    pen.save();
    pen.beginPath();
    pen.rect(0, top, left, height - top);
    pen.clip();
    for (let i = i0 - (i0 % everyRow); i < i1; i += everyRow) {
      pen.fillText(fitted(pen, spec.rowName(i), left - 12), left - 7, y(i) + Math.max(tall, 12) / 2);
    }
    pen.restore();
    pen.save();
    pen.beginPath();
    pen.rect(left - 4, 0, width - left + 4, top);
    pen.clip();
    pen.textAlign = "left";
    for (let j = j0 - (j0 % everyColumn); j < j1; j += everyColumn) {
      const name = spec.columnName(j);
      if (flat) { pen.fillText(fitted(pen, name, w - 4), x(j) + 2, top - 11); continue; }
      pen.save();
      pen.translate(x(j) + Math.max(w, 12) / 2, top - 6);
      pen.rotate(-Math.PI / 2);
      pen.fillText(fitted(pen, name, top - 10), 0, 0);
      pen.restore();
    }
    pen.restore();
  }

  function cellAt(event) {
    if (!size || !spec) return null;
    const box = grid.getBoundingClientRect();
    const px = event.clientX - box.left, py = event.clientY - box.top;
    if (px < size.left || py < size.top || px > grid.clientWidth || py > grid.clientHeight) return null;
    const j = Math.floor((px - size.left + grid.scrollLeft) / size.w), i = Math.floor((py - size.top + grid.scrollTop) / size.h);
    return i >= 0 && j >= 0 && i < spec.rows && j < spec.columns ? [i, j] : null;
  }

  /** Put the active cell in its place; with `move`, into the other element, which takes the focus. */
  function place(move) {
    if (!spec || !size || !spec.rows || !spec.columns) { rows.forEach((row) => { row.hidden = true; }); return; }
    if (move) turn = 1 - turn;
    const cell = cells[turn], [i, j] = active;
    rows[turn].hidden = false;
    rows[turn].setAttribute("aria-rowindex", String(i + 1));
    cell.setAttribute("aria-colindex", String(j + 1));
    cell.setAttribute("aria-label", spec.text(i, j));
    cell.setAttribute("tabindex", "0");
    cell.style.setProperty("transform", `translate(${size.left + j * size.w - 1}px, ${size.top + i * size.h - 1}px)`);
    cell.style.setProperty("width", `${Math.max(size.w, 6)}px`);
    cell.style.setProperty("height", `${Math.max(size.h, 6)}px`);
    if (!move) return;
    const x = j * size.w, y = i * size.h, roomX = grid.clientWidth - size.left, roomY = grid.clientHeight - size.top;
    if (x < grid.scrollLeft) grid.scrollLeft = x;
    if (x + size.w > grid.scrollLeft + roomX) grid.scrollLeft = x + size.w - roomX + 2;
    if (y < grid.scrollTop) grid.scrollTop = y;
    if (y + size.h > grid.scrollTop + roomY) grid.scrollTop = y + size.h - roomY + 2;
    cell.focus({ preventScroll: true });
    cells[1 - turn].setAttribute("tabindex", "-1");
    rows[1 - turn].hidden = true;
    showTip(active, cell.getBoundingClientRect());
  }

  function showTip(at, box) {
    tip.textContent = spec.text(...at);
    tip.hidden = false;
    const frame = element.getBoundingClientRect();
    const x = Math.min(Math.max(0, box.left - frame.left + 14), Math.max(0, frame.width - tip.offsetWidth - 4));
    let y = box.bottom - frame.top + 10;
    if (y + tip.offsetHeight > frame.height) y = box.top - frame.top - tip.offsetHeight - 10;
    tip.style.setProperty("transform", `translate(${x}px, ${y}px)`);
  }

  const STEPS = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], PageUp: [-10, 0], PageDown: [10, 0] };
  grid.addEventListener("keydown", (event) => {
    if (!spec) return;
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); spec.onSelect?.(...active); return; }
    if (event.key === "Escape") { tip.hidden = true; return; }
    const step = event.key === "Home" ? [0, -1e9] : event.key === "End" ? [0, 1e9] : STEPS[event.key];
    if (!step) return;
    event.preventDefault();
    active = [Math.min(spec.rows - 1, Math.max(0, active[0] + step[0])), Math.min(spec.columns - 1, Math.max(0, active[1] + step[1]))];
    place(true);
  });
  grid.addEventListener("focusout", () => { tip.hidden = true; });
  grid.addEventListener("pointermove", (event) => {
    const at = cellAt(event);
    if (!at) { tip.hidden = true; return; }
    showTip(at, { left: event.clientX, top: event.clientY, bottom: event.clientY });
  });
  grid.addEventListener("pointerleave", () => { tip.hidden = true; });
  grid.addEventListener("click", (event) => {
    const at = cellAt(event);
    if (!at) return;
    active = at;
    place(true);
    spec.onSelect?.(...at);
  });
  grid.addEventListener("scroll", draw, { passive: true });
  new ResizeObserver(layOut).observe(element);
  document.addEventListener("themechange", draw);

  return {
    element,
    show(next) {
      spec = { ...next, rowName: (i) => shown(next.rowName(i), 40), columnName: (j) => shown(next.columnName(j), 40) };
      grid.setAttribute("aria-rowcount", String(spec.rows));
      grid.setAttribute("aria-colcount", String(spec.columns));
      grid.setAttribute("aria-label", next.label || label);
      note.textContent = next.note || "";
      active = spec.selected ? [spec.selected[0], spec.selected[1] ?? Math.min(active[1], spec.columns - 1)] : [0, 0];
      active = [Math.max(0, Math.min(active[0], spec.rows - 1)), Math.max(0, Math.min(active[1], spec.columns - 1))];
      layOut();
    },
    draw,
    /** Scroll so that a cell is visible, unless the reader is moving in this matrix. */
    reveal(i, j) {
      if (!size || grid.contains(document.activeElement)) return;
      const x = j * size.w, y = i * size.h, wide = grid.clientWidth - size.left, tall = grid.clientHeight - size.top;
      if (y < grid.scrollTop || y + size.h > grid.scrollTop + tall) grid.scrollTop = Math.max(0, y - tall / 2);
      if (x < grid.scrollLeft || x + size.w > grid.scrollLeft + wide) grid.scrollLeft = Math.max(0, x - wide / 2);
    },
  };
}

const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let most = Math.max(1, Math.floor((text.length * width) / pen.measureText(text).width));
  while (most > 1 && pen.measureText(`${text.slice(0, most)}…`).width > width) most--;
  return `${text.slice(0, most)}…`;
}
