// The page: which connection is shown, its charts with legends, one zoom for all charts over time.
"use strict";

whydrop.element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
};

whydrop.start = () => {
  for (const button of document.querySelectorAll("button.copy")) {
    button.addEventListener("click", () => whydrop.copy(button));
  }
  const source = document.getElementById("chart-data");
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const select = document.getElementById("flow");
  data.flows.forEach((flow, number) => {
    const lost = flow.lost === 1 ? "1 packet lost" : `${flow.lost.toLocaleString("en")} packets lost`;
    select.append(whydrop.element("option", { value: number }, `${flow.name} – ${lost}`));
  });
  if (data.flows.length === 0) {
    document.getElementById("charts").hidden = true;
    return;
  }
  let shown = whydrop.showFlow(data, 0);
  select.addEventListener("change", () => {
    shown.close();
    shown = whydrop.showFlow(data, Number(select.value));
  });
  for (const button of document.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => shown.zoom(button.dataset.zoom));
  }
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown.redraw());
  window.addEventListener("beforeprint", () => {
    whydrop.printing = true;
    document.documentElement.classList.add("print");
    shown.redraw();
  });
  window.addEventListener("afterprint", () => {
    whydrop.printing = false;
    document.documentElement.classList.remove("print");
    shown.redraw();
  });
};

whydrop.copy = async (button) => {
  const command = button.previousElementSibling.textContent;
  try {
    await navigator.clipboard.writeText(command);
    button.textContent = "Copied";
  } catch {
    // Pages opened from a file may not have the clipboard: select the text, so that Ctrl-C takes it.
    getSelection().selectAllChildren(button.previousElementSibling);
    button.textContent = "Selected";
  }
  setTimeout(() => {
    button.textContent = "Copy";
  }, 1500);
};

// Draws all figures of a connection; returns what the controls act on.
whydrop.showFlow = (data, number) => {
  const flow = whydrop.decodeFlow(data.flows[number]);
  const holder = document.getElementById("figures");
  holder.replaceChildren();
  const zoomAll = (from, low, high) => {
    const together = from.figure.overTime ? charts.filter((chart) => chart.figure.overTime) : [from];
    for (const chart of together) chart.setWindow(low, high);
  };
  const keys = [];
  const charts = flow.figures.map((figure) => whydrop.showFigure(holder, figure, data.styles, zoomAll, keys));
  document.querySelector('[data-zoom="focus"]').disabled = !flow.focus;
  const overTime = charts.find((chart) => chart.figure.overTime);
  return {
    zoom: (how) => overTime && zoomAll(overTime, ...whydrop.nextWindow(overTime, how, flow.focus)),
    redraw: () => {
      for (const draw of keys) draw();
      for (const chart of charts) chart.redraw();
    },
    close: () => charts.forEach((chart) => chart.destroy()),
  };
};

whydrop.nextWindow = (chart, how, focus) => {
  const [low, high] = chart.window;
  const span = high - low;
  const [least, greatest] = chart.all;
  switch (how) {
    case "in":
      return [low + span / 4, high - span / 4];
    case "out":
      return [low - span / 2, high + span / 2];
    case "left": {
      const step = Math.min(span / 2, low - least);
      return [low - step, high - step];
    }
    case "right": {
      const step = Math.min(span / 2, greatest - high);
      return [low + step, high + step];
    }
    case "focus":
      return focus;
    default:
      return chart.all;
  }
};

whydrop.showFigure = (holder, figure, styles, onZoom, keys) => {
  const plot = whydrop.element("div", { class: "plot", role: "img", "aria-label": `${figure.title}. ${figure.see}` });
  const legend = whydrop.element("div", { class: "legend", role: "group", "aria-label": `What ${figure.title} shows` });
  const section = whydrop.element(
    "section",
    { class: "figure", id: `figure-${figure.key}` },
    whydrop.element("h3", {}, figure.title),
    legend,
    plot,
    whydrop.element("p", { class: "see" }, figure.see),
  );
  const thinned = figure.layers.filter((layer) => layer.shown < layer.rows);
  if (thinned.length > 0) {
    const note = "Drawn from a part of the packets to keep this page small; every lost or repeated packet is there.";
    section.append(whydrop.element("p", { class: "small" }, note));
  }
  holder.append(section);
  const chart = whydrop.makeChart(plot, figure, styles, onZoom);
  for (const position of figure.legend) {
    legend.append(whydrop.legendEntry(figure.layers[position], styles, chart, keys));
  }
  return chart;
};

whydrop.legendEntry = (layer, styles, chart, keys) => {
  const canvas = whydrop.element("canvas", { class: "key", "aria-hidden": "true" });
  const count = layer.rare ? ` (${layer.rows.toLocaleString("en")})` : "";
  const button = whydrop.element("button", { type: "button", "aria-pressed": "true" }, canvas, `${layer.name}${count}`);
  const draw = () => whydrop.drawKey(canvas, layer, styles[layer.style], whydrop.colourOf(styles[layer.style]));
  draw();
  keys.push(draw);
  button.addEventListener("click", () => {
    layer.visible = !layer.visible;
    button.setAttribute("aria-pressed", String(layer.visible));
    chart.setWindow(...chart.window);
  });
  return button;
};

whydrop.start();
