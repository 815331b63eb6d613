// A text field that suggests names while one types: the combobox pattern of ARIA.

import { fill, freshId, h } from "./dom.js";
import { matches, shown } from "./names.js";

/** `names()` and `lowered()` return the names to choose from; `onchoose(code)` is called with the one chosen. */
export function makeCombobox(label, names, lowered, onchoose) {
  const id = freshId("combobox");
  const list = h("ul", { id: `${id}-list`, role: "listbox", "aria-label": label, class: "options", hidden: true });
  const input = h("input", {
    id, type: "text", role: "combobox", autocomplete: "off", spellcheck: "false", "aria-expanded": "false",
    "aria-controls": `${id}-list`, "aria-autocomplete": "list",
  });
  const element = h("div", { class: "field combobox" }, h("label", { for: id }, label), input, list);
  let found = [], active = -1, current = -1;

  function open(text) {
    found = matches(names(), lowered(), text);
    active = found.length ? 0 : -1;
    fill(list, found.length ? found.map((code, i) =>
      h("li", { id: `${id}-${i}`, role: "option", "aria-selected": "false", title: shown(names()[code], 200) }, shown(names()[code], 80)))
      : h("li", { class: "none", role: "option", "aria-disabled": "true", "aria-selected": "false" }, "no such name"));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark();
  }

  function close() {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function mark() {
    [...list.children].forEach((item, i) => item.setAttribute("aria-selected", String(i === active)));
    if (active < 0) { input.removeAttribute("aria-activedescendant"); return; }
    input.setAttribute("aria-activedescendant", `${id}-${active}`);
    list.children[active].scrollIntoView({ block: "nearest" });
  }

  function choose(code) {
    current = code;
    input.value = shown(names()[code], 200);
    close();
    onchoose(code);
  }

  const restore = () => { if (current >= 0 && current < names().length) input.value = shown(names()[current], 200); };
  input.addEventListener("input", () => open(input.value));
  input.addEventListener("focus", () => input.select());
  input.addEventListener("click", () => { if (list.hidden) open(""); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (list.hidden) open("");
      else if (found.length) { active = (active + (event.key === "ArrowDown" ? 1 : found.length - 1)) % found.length; mark(); }
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (!list.hidden && active >= 0) choose(found[active]);
    } else if (event.key === "Escape") {
      restore();
      close();
    }
  });
  input.addEventListener("blur", () => { restore(); close(); });
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    const at = [...list.children].indexOf(event.target.closest("li"));
    if (found[at] !== undefined) choose(found[at]);
  });

  return { element, input, set(code) { current = code; if (code < 0) input.value = ""; else restore(); }, get: () => current };
}
