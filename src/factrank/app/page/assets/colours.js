// Colours of heat maps and values, for both themes.

const STOPS = {
  light: { low: [33, 98, 168], middle: [247, 248, 250], high: [190, 74, 20], weak: [240, 243, 246], strong: [13, 92, 99] },
  dark: { low: [96, 165, 250], middle: [28, 36, 44], high: [251, 146, 82], weak: [24, 32, 39], strong: [94, 212, 205] },
};
const STEPS = 64;
const palettes = {};

export const theme = () => (document.documentElement.dataset.theme === "dark" ? "dark" : "light");

const mixed = (a, b, t) => `rgb(${a.map((x, i) => Math.round(x + (b[i] - x) * t)).join(",")})`;

function palette(kind) {
  const name = `${theme()} ${kind}`;
  if (!palettes[name]) {
    const { low, middle, high, weak, strong } = STOPS[theme()];
    palettes[name] = Array.from({ length: 2 * STEPS + 1 }, (_, i) => {
      const t = (i - STEPS) / STEPS;
      if (kind === "sequential") return mixed(weak, strong, i / (2 * STEPS));
      return t < 0 ? mixed(middle, low, -t) : mixed(middle, high, t);
    });
  }
  return palettes[name];
}

/** The colour of a number in [-most, most]. */
export function diverging(x, most) {
  if (Number.isNaN(x)) return noNumber();
  const t = most > 0 ? Math.max(-1, Math.min(1, x / most)) : 0;
  return palette("diverging")[Math.round((t + 1) * STEPS)];
}

/** The colour of a number in [0, 1]. */
export function sequential(x) {
  if (Number.isNaN(x)) return noNumber();
  return palette("sequential")[Math.round(Math.max(0, Math.min(1, x)) * 2 * STEPS)];
}

/** A text colour for cells, by how strong their colour is (1: strongest). */
export const contrast = (strength) => (strength > 0.6 ? (theme() === "dark" ? "#0c1419" : "#ffffff") : token("ink"));

const noNumber = () => (theme() === "dark" ? "#5b2b3a" : "#f3c6cf");

/** The colour of a value: neighbouring codes differ most. */
export function ofValue(code) {
  const hue = (code * 137.508 + 250) % 360;
  const step = Math.floor(code / 9) % 3;
  return theme() === "dark" ? `oklch(${0.62 + 0.07 * step} 0.11 ${hue})` : `oklch(${0.84 - 0.06 * step} 0.09 ${hue})`;
}

/** A CSS gradient for the legend of a scale. */
export const gradient = (kind) => `linear-gradient(90deg, ${palette(kind).filter((_, i) => i % 16 === 0).join(", ")})`;

/** A colour of the style sheet. */
export const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
