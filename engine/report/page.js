"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const nthColor = n => color(`--curve-${n % 7}`);
  // Each curve of a single run gets a color of its own; of several runs, each keeps its color.
  const curveColor = (curve, i) => nthColor(data.runs > 1 ? curve.run : i);
  const number = value => Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
    ? value.toExponential(2) : String(Number(value.toPrecision(4)));

  const lastUpdate = Math.max(...data.charts.flatMap(chart => chart.curves.map(curve => curve.points.at(-1)[0])));

  // Saves are triangles on the axis, because there may be many; resumptions are lines.
  const marks = {id: "marks", afterDatasetsDraw({ctx, chartArea, scales}) {
    const {top, bottom} = chartArea;
    for (const {step, event} of data.marks) {
      const x = scales.x.getPixelForValue(step);
      if (x < chartArea.left || x > chartArea.right) continue;
      ctx.save();
      ctx.beginPath();
      if (event === "resumed") {
        ctx.strokeStyle = color("--curve-3");
        ctx.setLineDash([4, 4]);
        ctx.moveTo(x, top);
        ctx.lineTo(x, bottom);
        ctx.stroke();
      } else {
        ctx.fillStyle = color(event === "saved" ? "--right" : "--wrong");
        ctx.moveTo(x - 4, bottom);
        ctx.lineTo(x + 4, bottom);
        ctx.lineTo(x, bottom - 6);
        ctx.fill();
      }
      ctx.restore();
    }
  }};

  const draw = (chart, canvas) => new Chart(canvas, {
    type: "line",
    plugins: [marks],
    data: {
      datasets: chart.curves.map((curve, i) => ({
        label: curve.name,
        data: curve.points.map(([x, y]) => ({x, y})),
        borderColor: curveColor(curve, i),
        backgroundColor: curveColor(curve, i) + (chart.is_stacked ? "99" : ""),
        fill: chart.is_stacked ? (i === 0 ? "origin" : "-1") : false,
        borderDash: (data.runs > 1 ? curve.is_second : i >= 7) ? [5, 4] : [],
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
        y: {type: "linear", stacked: chart.is_stacked, ticks: {color: color("--quiet"), callback: number}, grid: {color: color("--line")},
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

  data.histograms.forEach((histogram, i) => charts.push(new Chart(document.getElementById(`histogram-${i}`), {
    type: "bar",
    data: {labels: histogram.labels, datasets: [{label: "samples", data: histogram.counts, backgroundColor: nthColor(0)}]},
    options: {
      animation: false,
      maintainAspectRatio: false,
      plugins: {legend: {display: false}, tooltip: {callbacks: {title: items => `${items[0].label} tokens`}}},
      scales: {
        x: {ticks: {color: color("--quiet"), maxRotation: 60}, grid: {display: false},
          title: {display: true, text: "tokens", color: color("--quiet")}},
        y: {beginAtZero: true, ticks: {color: color("--quiet"), precision: 0}, grid: {color: color("--line")}},
      },
    },
  })));

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
  document.querySelectorAll("[data-filters]").forEach(button =>
    toggle(button, on => document.getElementById(button.dataset.filters).classList.toggle("only-wrong", on)));
  window.drawnCharts = charts;  // for tests
})();
