"use strict";
// Draws the charts of the page, and sorts each table by the column whose title is clicked.
(function () {
  const page = JSON.parse(document.getElementById("audit-data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  // Charts of a fixed width shrink to a narrow screen; heat maps scroll.
  function fitted(chart, width) {
    if (typeof chart.width !== "number" || chart.width + 100 <= width) return chart;
    return Object.assign({}, chart, { width: width, autosize: { type: "fit-x", contains: "padding" } });
  }

  function drawAll() {
    document.querySelectorAll(".audit-chart").forEach(function (place) {
      const options = { ast: true, renderer: "svg", actions: { export: true, source: false, compiled: false, editor: false } };
      options.config = page.themes[dark.matches ? "dark" : "light"];
      window.vegaEmbed(place, fitted(page.charts[place.dataset.chart], place.clientWidth), options).catch(function (error) {
        place.textContent = "This chart could not be drawn: " + error.message;
      });
    });
  }

  function sortBy(table, column, down) {
    const body = table.tBodies[0];
    const rows = Array.from(body.rows);
    const value = (row) => row.cells[column].textContent.replace(/[,%]/g, "");
    rows.sort(function (one, other) {
      const a = value(one), b = value(other);
      const order = a !== "" && b !== "" && !isNaN(a) && !isNaN(b) ? a - b : a.localeCompare(b);
      return down ? -order : order;
    });
    rows.forEach((row) => body.appendChild(row));
  }

  document.querySelectorAll("table.sortable").forEach(function (table) {
    Array.from(table.tHead.rows[0].cells).forEach(function (cell, column) {
      cell.addEventListener("click", function () {
        const down = cell.getAttribute("aria-sort") === "ascending";
        Array.from(table.tHead.rows[0].cells).forEach((other) => other.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        sortBy(table, column, down);
      });
    });
  });
  dark.addEventListener("change", drawAll);
  drawAll();
})();
