// The page: its sections with figures, their legends, one zoom for all panels over time.
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
  const { parts, styles } = JSON.parse(source.textContent);
  const shown = Object.entries(parts).map(([id, choices]) => whydrop.startPart(document.getElementById(id), choices, styles));
  const redraw = () => shown.forEach((part) => part.redraw());
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

// The figures of one section of the page; of several sets of them the reader chooses one.
whydrop.startPart = (section, choices, styles) => {
  if (choices.length === 0) {
    section.hidden = true;
    return { redraw: () => {} };
  }
  const select = section.querySelector("select");
  let shown = whydrop.showFigures(section, whydrop.decode(choices[0]), styles);
  if (select) {
    choices.forEach((choice, number) => select.append(whydrop.element("option", { value: number }, choice.name)));
    select.addEventListener("change", () => {
      shown.close();
      shown = whydrop.showFigures(section, whydrop.decode(choices[Number(select.value)]), styles);
    });
  }
  for (const button of section.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => shown.zoom(button.dataset.zoom));
  }
  return { redraw: () => shown.redraw() };
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

// Draws all figures of a choice; returns what the controls of its section act on.
whydrop.showFigures = (section, choice, styles) => {
  const holder = section.querySelector(".figures");
  const charts = [];
  const keys = [];
  const zoomTogether = (from, low, high) => {
    const { zoom } = from.panel;
    for (const chart of zoom ? charts.filter((one) => one.panel.zoom === zoom) : [from]) chart.setWindow(low, high);
  };
  for (const figure of choice.figures) charts.push(...whydrop.showFigure(holder, figure, styles, zoomTogether, keys));
  for (const focus of section.querySelectorAll('[data-zoom="focus"]')) focus.disabled = !choice.focus;
  // The buttons act on time where anything is over time, else on whatever there is.
  const overTime = charts.filter((chart) => chart.panel.zoom === "time");
  const driven = overTime.length > 0 ? overTime : charts;
  return {
    zoom: (how) => driven.forEach((chart) => chart.setWindow(...whydrop.nextWindow(chart, how, choice.focus))),
    redraw: () => {
      for (const draw of keys) draw();
      for (const chart of charts) chart.redraw();
    },
    close: () => {
      charts.forEach((chart) => chart.destroy());
      holder.replaceChildren();
    },
  };
};

whydrop.nextWindow = (chart, how, focus) => {
  const [warp, unwarp] = whydrop.warpOf(chart.panel.x);
  const [low, high] = chart.window.map(warp);
  const span = high - low;
  const [least, greatest] = chart.all.map(warp);
  const moved = (by) => [low + by, high + by].map(unwarp);
  switch (how) {
    case "in":
      return [low + span / 4, high - span / 4].map(unwarp);
    case "out":
      return [low - span / 2, high + span / 2].map(unwarp);
    case "left":
      return moved(-Math.min(span / 2, low - least));
    case "right":
      return moved(Math.min(span / 2, greatest - high));
    case "focus":
      return focus;
    default:
      return chart.all;
  }
};

// One figure: its words, and a pair of axes, or several to be compared. A page may have a place and words for it.
whydrop.showFigure = (holder, figure, styles, onZoom, keys) => {
  const place = document.getElementById(`figure-${figure.key}`) ?? holder.appendChild(whydrop.placeOf(figure, holder.parentElement.querySelector("h2")));
  const panels = place.querySelector(".panels");
  panels.style.setProperty("--columns", figure.columns);
  if (figure.panels.some((panel) => panel.layers.some((layer) => layer.shown < layer.rows))) {
    const note = "Drawn from a part of the marks to keep this page small; every rare one, such as a lost packet, is there.";
    place.append(whydrop.element("p", { class: "small" }, note));
  }
  const shown = figure.panels.map((panel) => whydrop.showPanel(panels, figure, panel, styles, onZoom));
  if (figure.legend) {
    const legend = whydrop.legendOf(figure.legend, shown, styles, keys, figure.title);
    panels.before(legend);
  } else {
    for (const one of shown.filter(({ chart }) => chart.panel.legend.length > 0)) one.place.before(whydrop.legendOf(one.chart.panel.legend, [one], styles, keys, one.chart.panel.title || figure.title));
  }
  return shown.map((one) => one.chart);
};

whydrop.placeOf = (figure, heading) => {
  const repeated = heading?.textContent === figure.title;
  const words = [figure.see, ...figure.notes].filter((text) => text);
  return whydrop.element(
    "section",
    { class: "figure", id: `figure-${figure.key}` },
    ...(repeated ? [] : [whydrop.element("h3", {}, figure.title)]),
    whydrop.element("div", { class: "panels" }),
    ...words.map((text) => whydrop.element("p", { class: "see" }, text)),
  );
};

whydrop.showPanel = (holder, figure, panel, styles, onZoom) => {
  const words = [panel.title, figure.title, figure.see].filter((text) => text).join(". ");
  const place = whydrop.element("div", { class: "plot", role: "img", "aria-label": words });
  const title = panel.title ? [whydrop.element("h4", {}, panel.title)] : [];
  holder.append(whydrop.element("div", { class: "panel" }, ...title, place));
  return { chart: whydrop.makeChart(place, panel, styles, onZoom), place };
};

// Names that the reader can switch off, in one panel or in all that have them.
whydrop.legendOf = (names, shown, styles, keys, what) => {
  const legend = whydrop.element("div", { class: "legend", role: "group", "aria-label": `What ${what} shows` });
  const { legendTitle } = shown[0].chart.panel;
  if (legendTitle) legend.append(whydrop.element("span", {}, legendTitle));
  for (const name of names) {
    const charts = shown.map((one) => one.chart).filter((chart) => chart.panel.layers.some((layer) => layer.name === name));
    legend.append(whydrop.legendEntry(name, charts, styles, keys));
  }
  return legend;
};

whydrop.legendEntry = (name, charts, styles, keys) => {
  const layers = charts.flatMap((chart) => chart.panel.layers.filter((layer) => layer.name === name));
  const shown = layers.findLast((layer) => !layer.helper) ?? layers.at(-1);
  const canvas = whydrop.element("canvas", { class: "key", "aria-hidden": "true" });
  const count = layers.every((layer) => layer.counted) ? ` (${layers.reduce((sum, layer) => sum + layer.rows, 0).toLocaleString("en")})` : "";
  const button = whydrop.element("button", { type: "button", "aria-pressed": "true" }, canvas, `${name}${count}`);
  const draw = () => whydrop.drawKey(canvas, shown, styles[shown.style], whydrop.colourOf(styles[shown.style]));
  draw();
  keys.push(draw);
  button.addEventListener("click", () => {
    const visible = !shown.visible;
    for (const layer of layers) layer.visible = visible;
    button.setAttribute("aria-pressed", String(visible));
    for (const chart of charts) chart.setWindow(...chart.window);
  });
  return button;
};

whydrop.start();
