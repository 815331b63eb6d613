// Runs before anything is drawn: the theme that the reader chose last, or else the system's.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("factrank-theme");
  } catch {
    // a page from disk may have no storage
  }
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
})();
