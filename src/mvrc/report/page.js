"use strict";
const METRICS = ["gradient_mapping", "gap"];
const dark = matchMedia("(prefers-color-scheme: dark)");
const hidden = new Set();
let axis = "samples";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function traces(column, metric) {
  const made = [];
  for (const curve of column.curves) {
    if (hidden.has(curve.label)) continue;
    const x = curve[axis];
    const [median, low, high] = curve.values[metric];
    const band = { x, mode: "lines", line: { width: 0 }, hoverinfo: "skip", showlegend: false };
    made.push({ ...band, y: high });
    made.push({ ...band, y: low, fill: "tonexty", fillcolor: curve.colour + "33" });
    made.push({
      x, y: median, name: curve.label, mode: "lines", line: { color: curve.colour, width: 2.2 },
      hovertemplate: "%{y:.3g}<extra>" + curve.label + "</extra>",
    });
  }
  return made;
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
    yaxis: { ...shared, type: "log", exponentformat: "power", dtick: 1, nticks: 6 },
  };
}

function draw() {
  for (const column of DATA)
    for (const metric of METRICS) {
      const look = layout(column);
      const values = column.curves.flatMap((c) => c.values[metric][0]).filter((v) => v > 0);
      const low = Math.log10(Math.min(...values)), high = Math.log10(Math.max(...values));
      look.yaxis.range = [low - 0.15, high + 0.15];
      if (high - low < 1.5) { look.yaxis.dtick = "D2"; look.yaxis.tickformat = ".0e"; }
      else if (high - low > 8) { look.yaxis.dtick = Math.ceil((high - low) / 6); }
      Plotly.react(`${column.id}-${metric}`, traces(column, metric), look,
        { responsive: true, displaylogo: false, displayModeBar: false });
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
  for (const column of DATA) for (const curve of column.curves) seen.set(curve.label, curve.colour);
  const place = document.getElementById("legend");
  for (const [label, shade] of seen) {
    const button = document.createElement("button");
    const mark = document.createElement("i");
    mark.style.background = shade;
    button.append(mark, label);
    button.setAttribute("aria-pressed", "true");
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
legend();
draw();
