"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const runColor = run => color(`--curve-${run % 6}`);
  // The second curve of a single run gets a color of its own; of several runs, each keeps its color.
  const curveColor = curve => runColor(data.runs > 1 ? curve.run : curve.is_second ? 1 : 0);
  const number = value => Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
    ? value.toExponential(2) : String(Number(value.toPrecision(4)));

  const lastUpdate = Math.max(...data.charts.flatMap(chart => chart.curves.map(curve => curve.points.at(-1)[0])));

  const draw = (chart, canvas) => new Chart(canvas, {
    type: "line",
    data: {
      datasets: chart.curves.map(curve => ({
        label: curve.name,
        data: curve.points.map(([x, y]) => ({x, y})),
        borderColor: curveColor(curve),
        backgroundColor: curveColor(curve),
        borderDash: data.runs > 1 && curve.is_second ? [5, 4] : [],
        borderWidth: 1.6,
        pointRadius: curve.points.length <= 30 ? 2.5 : 0,
        pointHitRadius: 8,
      })),
    },
    options: {
      animation: false,
      maintainAspectRatio: false,
      parsing: false,
      normalized: true,
      interaction: {mode: "nearest", axis: "x", intersect: false},
      plugins: {
        legend: {display: chart.curves.length > 1, labels: {color: color("--text"), boxWidth: 14, boxHeight: 2}},
        tooltip: {callbacks: {
          title: items => items.length ? `update ${items[0].parsed.x}` : "",
          label: item => `${item.dataset.label}: ${number(item.parsed.y)}${chart.unit ? ` ${chart.unit}` : ""}`,
        }},
      },
      scales: {
        x: {type: "linear", min: 0, max: lastUpdate, ticks: {color: color("--quiet"), precision: 0, maxRotation: 0}, grid: {color: color("--line")},
          title: {display: true, text: "update", color: color("--quiet")}},
        y: {type: "linear", ticks: {color: color("--quiet"), callback: number}, grid: {color: color("--line")},
          title: {display: chart.unit !== "", text: chart.unit, color: color("--quiet")}},
      },
    },
  });

  const toggle = (button, change) => button.addEventListener("click", () => {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    change(on);
  });

  const charts = data.charts.map((chart, i) => {
    const drawn = draw(chart, document.getElementById(`chart-${i}`));
    const button = document.getElementById(`log-${i}`);
    if (button) toggle(button, on => { drawn.options.scales.y.type = on ? "logarithmic" : "linear"; drawn.update(); });
    return drawn;
  });

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
  document.querySelectorAll("[data-filters]").forEach(button =>
    toggle(button, on => document.getElementById(button.dataset.filters).classList.toggle("only-wrong", on)));
  window.drawnCharts = charts;  // for tests
})();
