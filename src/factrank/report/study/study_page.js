"use strict";
// Draws the charts of the page into their figures, at the width and in the colours of the reader's screen.
(function () {
  const page = JSON.parse(document.getElementById("charts").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let drawn = {};

  function fitted(spec, width) {
    const own = JSON.parse(JSON.stringify(spec));
    if (own.facet) {
      const columns = Math.max(1, Math.min(own.columns, Math.floor(width / 250)));
      own.columns = columns;
      own.spec.width = own.spec.height = Math.max(140, Math.min(300, Math.floor((width - 60) / columns) - 24));
    } else {
      const square = own.usermeta && own.usermeta.square;
      own.autosize = { type: "fit", contains: "padding" };
      own.width = Math.min(width, square ? 480 : 760);
      own.height = square ? own.width : Math.round(Math.min(420, Math.max(300, width * 0.6)));
    }
    return own;
  }

  async function draw(place) {
    const width = place.clientWidth;
    if (!width || drawn[place.id] === width) return;
    drawn[place.id] = width;
    const chart = page.charts[place.dataset.chart];
    try {
      await window.vegaEmbed(place, fitted(chart, width), {
        ast: true,
        renderer: page.canvas.includes(place.dataset.chart) ? "canvas" : "svg",
        config: page.themes[dark.matches ? "dark" : "light"],
        actions: { export: true, source: false, compiled: false, editor: false },
        downloadFileName: place.dataset.chart,
      });
    } catch (error) {
      place.textContent = "This chart could not be drawn: " + error.message;
      throw error;
    }
  }

  function drawAll() {
    document.querySelectorAll(".chart").forEach(draw);
  }

  let waiting = 0;
  window.addEventListener("resize", function () {
    window.clearTimeout(waiting);
    waiting = window.setTimeout(drawAll, 150);
  });
  dark.addEventListener("change", function () {
    drawn = {};
    drawAll();
  });
  drawAll();
})();
