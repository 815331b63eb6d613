// Elements without markup: texts are always text, never HTML.

/** An element: `h("p", {class: "soft", onclick: f}, "text", child)`. */
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key in PROPERTIES) element[key] = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const PROPERTIES = { value: 1, checked: 1, hidden: 1, textContent: 1 };

/** Replace all children. */
export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

let last = 0;
/** A new id for aria references. */
export const freshId = (word) => `${word}-${++last}`;

/** Call `f` at most once per frame. */
export function perFrame(f) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; f(); });
  };
}

/** A labelled select: options are [value, text]. */
export function choice(label, options, value, onchange) {
  const id = freshId("choice");
  const select = h("select", { id, onchange: () => onchange(select.value) }, options.map(([v, text]) => h("option", { value: v }, text)));
  select.value = value;
  return { select, element: h("div", { class: "field" }, h("label", { for: id }, label), select) };
}

/** A group of buttons of which one is pressed. */
export function segments(label, options, value, onchange) {
  const buttons = options.map(([v, text]) =>
    h("button", { type: "button", "aria-pressed": String(v === value), onclick: () => { set(v); onchange(v); } }, text));
  const set = (v) => options.forEach(([own], i) => buttons[i].setAttribute("aria-pressed", String(own === v)));
  return { set, element: h("div", { class: "segments", role: "group", "aria-label": label }, buttons) };
}
