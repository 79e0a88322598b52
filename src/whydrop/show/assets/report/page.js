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
  const parts = [whydrop.startPath(data), whydrop.startFlows(data)].filter((part) => part !== null);
  const redraw = () => parts.forEach((part) => part.redraw());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  window.addEventListener("beforeprint", () => {
    whydrop.printing = true;
    document.documentElement.classList.add("print");
    redraw();
  });
  window.addEventListener("afterprint", () => {
    whydrop.printing = false;
    document.documentElement.classList.remove("print");
    redraw();
  });
};

// The charts of all packets between two captures, which are there only where there are two.
whydrop.startPath = (data) => {
  const section = document.getElementById("pair");
  if (!section || !data.path) return null;
  const shown = whydrop.showFigures(section, whydrop.decode(data.path), data.styles);
  whydrop.listen(section, (how) => shown.zoom(how));
  return shown;
};

// The charts of one connection, which the reader chooses.
whydrop.startFlows = (data) => {
  const section = document.getElementById("charts");
  if (data.flows.length === 0) {
    section.hidden = true;
    return null;
  }
  const select = document.getElementById("flow");
  data.flows.forEach((flow, number) => {
    const lost = flow.lost === 1 ? "1 packet lost" : `${flow.lost.toLocaleString("en")} packets lost`;
    select.append(whydrop.element("option", { value: number }, `${flow.name} – ${lost}`));
  });
  let shown = whydrop.showFigures(section, whydrop.decode(data.flows[0]), data.styles);
  select.addEventListener("change", () => {
    shown.close();
    shown = whydrop.showFigures(section, whydrop.decode(data.flows[Number(select.value)]), data.styles);
  });
  whydrop.listen(section, (how) => shown.zoom(how));
  return { redraw: () => shown.redraw() };
};

whydrop.listen = (section, zoom) => {
  for (const button of section.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(button.dataset.zoom));
  }
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

// Draws all figures of a part of the page; returns what its controls act on.
whydrop.showFigures = (section, part, styles) => {
  const holder = section.querySelector(".figures");
  holder.replaceChildren();
  const charts = [];
  const keys = [];
  const zoomAll = (from, low, high) => {
    const together = from.figure.overTime ? charts.filter((chart) => chart.figure.overTime) : [from];
    for (const chart of together) chart.setWindow(low, high);
  };
  for (const figures of whydrop.grouped(part.figures)) {
    charts.push(...whydrop.showGroup(holder, figures, styles, zoomAll, keys));
  }
  section.querySelector('[data-zoom="focus"]').disabled = !part.focus;
  const overTime = charts.find((chart) => chart.figure.overTime);
  return {
    zoom: (how) => overTime && zoomAll(overTime, ...whydrop.nextWindow(overTime, how, part.focus)),
    redraw: () => {
      for (const draw of keys) draw();
      for (const chart of charts) chart.redraw();
    },
    close: () => charts.forEach((chart) => chart.destroy()),
  };
};

// The figures of one chart together; most charts have one.
whydrop.grouped = (figures) => {
  const groups = [];
  for (const figure of figures) {
    const last = groups.at(-1);
    if (figure.group && last?.[0].group?.key === figure.group.key) last.push(figure);
    else groups.push([figure]);
  }
  return groups;
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

// One chart: a pair of axes, or several to be compared.
whydrop.showGroup = (holder, figures, styles, onZoom, keys) => {
  const { key, title, see, columns } = figures[0].group ?? { ...figures[0], columns: 1 };
  const panels = whydrop.element("div", { class: columns > 1 ? "panels" : "" });
  const section = whydrop.element(
    "section",
    { class: "figure", id: `figure-${key}` },
    whydrop.element("h3", {}, title),
    panels,
    whydrop.element("p", { class: "see" }, see),
  );
  if (figures.some((figure) => figure.layers.some((layer) => layer.shown < layer.rows))) {
    const note = "Drawn from a part of the packets to keep this page small; every lost or repeated packet is there.";
    section.append(whydrop.element("p", { class: "small" }, note));
  }
  holder.append(section);
  return figures.map((figure) => whydrop.showFigure(panels, figure, styles, onZoom, keys));
};

whydrop.showFigure = (holder, figure, styles, onZoom, keys) => {
  const plot = whydrop.element("div", { class: "plot", role: "img", "aria-label": `${figure.title}. ${figure.see}` });
  const legend = whydrop.element("div", { class: "legend", role: "group", "aria-label": `What ${figure.title} shows` });
  const panel = whydrop.element("div", { class: "panel" }, legend, plot);
  if (figure.group) panel.prepend(whydrop.element("h4", {}, figure.title));
  holder.append(panel);
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
