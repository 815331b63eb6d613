// Untrusted names: shown as text only, with control and direction characters as escapes, and cut if they are long.

const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]/gu;

const escape = (letter) => {
  const code = letter.codePointAt(0);
  return code < 256 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
};

/** A name on one line, at most `longest` characters. */
export function shown(name, longest = 60) {
  const cut = name.length > longest ? `${[...name.slice(0, 2 * longest)].slice(0, longest - 1).join("")}…` : name;
  return cut.replace(HIDDEN, escape);
}

/** Up to `most` indices of names that match a text: equal first, then by prefix, then anywhere. */
export function matches(names, lowered, text, most = 60) {
  const wanted = text.trim().toLowerCase();
  const groups = [[], [], []];
  for (let i = 0; i < names.length; i++) {
    const at = lowered[i].indexOf(wanted);
    if (at < 0) continue;
    const group = lowered[i] === wanted ? 0 : at === 0 ? 1 : 2;
    if (groups[group].length < most) groups[group].push(i);
  }
  return groups.flat().slice(0, most);
}

const counted = new Intl.NumberFormat("en");
export const count = (n) => counted.format(n);

/** A number with three significant digits, such as 3.94 or −0.012. */
export function number(x) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const text = size !== 0 && (size < 0.001 || size >= 1e6) ? size.toExponential(2).replace("e+", "e") : String(Number(size.toPrecision(3)));
  return `${x < 0 ? "−" : ""}${text}`;
}

/** A fraction as a percentage, rounded down: 100% means all. */
export function percent(part, whole) {
  if (!whole) return "–";
  if (part === whole) return "100%";
  const tenths = Math.floor((1000 * part) / whole);
  return `${(tenths / 10).toFixed(tenths % 10 ? 1 : 0)}%`;
}

/** A probability, such as 0.991 or <0.001. */
export function probability(p) {
  if (Number.isNaN(p)) return "NaN";
  if (p < 0.001) return "<0.001";
  return p > 0.999 && p < 1 ? ">0.999" : p.toFixed(3);
}
