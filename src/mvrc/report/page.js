"use strict";
const METRICS = ["gradient_mapping", "gap"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const controls = DATA.flatMap((column) => column.curves.filter((curve) => curve.control));
const hidden = new Set(controls.map((curve) => curve.label));
let axis = "samples";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function traces(column, metric) {
  const made = [];
  for (const curve of column.curves) {
    if (hidden.has(curve.label)) continue;
    const x = curve[axis];
    const [median, low, high] = curve.values[metric];
    if (!curve.control) {
      const band = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
      made.push({ ...band, y: high });
      made.push({ ...band, y: low, fill: "tonexty", fillcolor: curve.colour + "33" });
    }
    // Markers of lines that lie on each other stand at places of their own.
    const place = column.curves.indexOf(curve), every = Math.max(1, Math.floor(x.length / 5));
    const marked = x.map((_, i) => (i % every === place % every ? (curve.control ? 5 : 7) : 0));
    made.push({
      x, y: median, name: curve.label, mode: "lines+markers",
      line: { color: curve.colour, width: curve.control ? 1 : 2.2,
        dash: curve.dash.length ? curve.dash.map((d) => d + "px").join(",") : "solid" },
      marker: { symbol: curve.symbol, size: marked, color: curve.colour, line: { width: 0 } },
      hovertemplate: "%{y:.3g}<extra>" + escaped(curve.label) + "</extra>",
    });
  }
  return made;
}

const escaped = (text) => text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);

// Powers of ten, and 2 and 5 times them where there are few: one style for all axes.
function ticks(low, high) {
  const factors = high - low < 1.5 ? [1, 2, 5] : high - low < 3 ? [1, 3] : [1];
  const every = Math.max(1, Math.ceil((high - low) / 6));
  const values = [], texts = [];
  for (let k = Math.floor(low); k <= Math.ceil(high); k++) {
    if (k % every) continue;
    for (const f of factors) {
      values.push(f * 10 ** k);
      texts.push(`${f === 1 ? "" : f + "·"}10<sup>${String(k).replace("-", "−")}</sup>`);
    }
  }
  return { tickvals: values, ticktext: texts };
}

function layout(column) {
  const ink = colour("--ink"), line = colour("--line");
  const shared = { gridcolor: line, zeroline: false, linecolor: line, tickfont: { color: ink } };
  const ends = column.curves.map((curve) => curve[axis][curve[axis].length - 1]);
  const end = axis === "samples" ? column.budget : Math.max(...ends);
  return {
    margin: { l: 58, r: 8, t: 6, b: 40 }, showlegend: false, hovermode: "x unified",
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: { color: ink, size: 12 },
    hoverlabel: { bgcolor: colour("--paper"), font: { color: ink } },
    xaxis: { ...shared, range: [0, end], fixedrange: false, title: {
      text: axis === "samples" ? "samples of g (millions)" : "seconds", standoff: 6 } },
    yaxis: { ...shared, type: "log" },
  };
}

function draw() {
  for (const column of DATA)
    for (const metric of METRICS) {
      const look = layout(column);
      const values = column.curves.flatMap((c) => c.values[metric][0]).filter((v) => v > 0);
      if (!values.length) continue;
      const low = Math.log10(Math.min(...values)), high = Math.log10(Math.max(...values));
      look.yaxis.range = [low - 0.15, high + 0.15];
      Object.assign(look.yaxis, ticks(low - 0.15, high + 0.15));
      Plotly.react(`${column.id}-${metric}`, traces(column, metric), look,
        { responsive: true, displaylogo: false, displayModeBar: false });
    }
}

// Samples against n, N, 1/ε or v, with the theory's slope.
function drawTheory() {
  const ink = colour("--ink"), line = colour("--line");
  for (const panel of COMPLEXITY) {
    const made = panel.curves.map((curve) => ({
      x: curve.x, y: curve.y, name: curve.label, mode: "lines+markers",
      line: { color: curve.colour, width: 2,
        dash: curve.dash.length ? curve.dash.map((d) => d + "px").join(",") : "solid" },
      marker: { symbol: curve.symbol, size: 7, color: curve.colour },
      hovertemplate: "%{y:.3g}<extra>" + escaped(curve.label) + "</extra>",
    }));
    made.push({ x: panel.guide.x, y: panel.guide.y, name: panel.guide.label, mode: "lines",
      line: { color: ink, width: 1, dash: "dot" }, hoverinfo: "skip" });
    const shared = { type: "log", gridcolor: line, linecolor: line, tickfont: { color: ink },
      exponentformat: "power", dtick: 1 };
    Plotly.react(`complexity-${panel.id}`, made, {
      margin: { l: 58, r: 8, t: 6, b: 40 }, hovermode: "closest", font: { color: ink, size: 12 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      legend: { orientation: "h", y: -0.25, font: { size: 11 } },
      xaxis: { ...shared, title: { text: panel.axis, standoff: 6 } },
      yaxis: { ...shared, title: { text: "samples" } },
    }, { responsive: true, displaylogo: false, displayModeBar: false });
  }
}

function choose(name) {
  axis = name;
  for (const word of ["samples", "seconds"])
    document.getElementById(`by-${word}`).setAttribute("aria-pressed", String(word === name));
  draw();
}

function legend() {
  const seen = new Map();
  for (const column of DATA) for (const curve of column.curves) seen.set(curve.label, curve);
  const place = document.getElementById("legend");
  for (const [label, curve] of seen) {
    const button = document.createElement("button");
    const mark = document.createElement("i");
    mark.style.borderTop = `${curve.control ? 1 : 3}px ${curve.dash.length ? "dashed" : "solid"} ${curve.colour}`;
    button.append(mark, label);
    button.setAttribute("aria-pressed", String(!hidden.has(label)));
    button.onclick = () => {
      hidden.has(label) ? hidden.delete(label) : hidden.add(label);
      button.setAttribute("aria-pressed", String(!hidden.has(label)));
      draw();
    };
    place.append(button);
  }
}

document.getElementById("by-samples").onclick = () => choose("samples");
document.getElementById("by-seconds").onclick = () => choose("seconds");
dark.addEventListener("change", draw);
dark.addEventListener("change", drawTheory);
legend();
draw();
drawTheory();
