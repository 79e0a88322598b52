// The figures of one section of a page: their words, charts and legends, and one zoom for all panels over time.

import { warpOf } from "./axis";
import { makeChart, showsAll, type Chart, type OnZoom } from "./chart";
import { element } from "./element";
import { decode, type Choice, type Ends, type Figure, type PackedChoice, type Panel, type Style } from "./figure";
import { legendOf } from "./legend";
import { saveMenu, type Pictures } from "./saving";

export interface Shown {
  choice: Choice;
  zoom: (how: string) => void;
  // The window of the charts over time, null where there are none; and moving them there, without a call of onWindow.
  readonly window: Ends | null;
  readonly isWhole: boolean;
  setWindow: (window: Ends | null) => void;
  // Moves the charts to the next burst of losses, or the one before, as wide as the window is; false where there is none.
  toLoss: (step: 1 | -1) => boolean;
  redraw: () => void;
  close: () => void;
}

// The figures of a section of which the page holds the data; of several sets of them the reader chooses one.
export function showSection(section: HTMLElement, packed: readonly PackedChoice[], styles: readonly Style[]): { redraw: () => void } {
  const decoded = packed.map((choice) => ({ choice: undefined as Choice | undefined, packed: choice }));
  let shown: Shown | undefined;
  const show = (number: number): void => {
    const one = decoded[number];
    if (!one) return;
    one.choice ??= decode(one.packed);
    shown?.close();
    shown = showChoice(section, one.choice, styles);
  };
  section.hidden = packed.length === 0;
  show(0);
  controls(section, packed.map((choice) => choice.name), show, (how) => shown?.zoom(how));
  return { redraw: () => shown?.redraw() };
}

// The buttons and the list of choices of a section.
export function controls(
  section: HTMLElement, names: readonly string[], choose: (number: number) => void, zoom: (how: string) => void,
): void {
  const select = section.querySelector("select");
  names.forEach((name, number) => select?.append(element("option", { value: number }, name)));
  select?.addEventListener("change", () => choose(Number(select.value)));
  for (const button of section.querySelectorAll<HTMLButtonElement>("[data-zoom]")) {
    button.addEventListener("click", () => zoom(button.dataset["zoom"] ?? "all"));
  }
}

// Called when the window of time of a section's charts has changed.
export type OnWindow = (low: number, high: number) => void;

// Draws all figures of a choice; returns what the controls of its section act on.
export function showChoice(
  section: HTMLElement, choice: Choice, styles: readonly Style[], onWindow: OnWindow = () => undefined,
  pictures?: Pictures,
): Shown {
  const holder = section.querySelector<HTMLElement>(".figures") ?? section;
  const charts: Chart[] = [];
  const keys: (() => void)[] = [];
  const zoomTogether: OnZoom = (from, low, high) => {
    const { zoom } = from.panel;
    for (const chart of zoom ? charts.filter((one) => one.panel.zoom === zoom) : [from]) chart.setWindow(low, high);
    if (zoom === "time") onWindow(...from.window);
  };
  for (const figure of choice.figures) {
    const { place, own } = showFigure(holder, figure, styles, zoomTogether, keys);
    charts.push(...own);
    const menu = saveMenu({ figure, charts: own, styles, cell: choice.cells?.[figure.key] ?? "", pictures });
    (place.querySelector("h3") ?? place.firstElementChild)?.before(menu);
  }
  for (const focus of section.querySelectorAll<HTMLButtonElement>('[data-zoom="focus"]')) focus.disabled = !choice.focus;
  // The buttons act on time where anything is over time, else on whatever there is.
  // Figures of a server have only the losses of the window, once they are zoomed.
  const losses = lossesOf(choice);
  const overTime = charts.filter((chart) => chart.panel.zoom === "time");
  const driven = overTime.length > 0 ? overTime : charts;
  return {
    choice,
    get window() {
      return overTime[0]?.window ?? null;
    },
    get isWhole() {
      return overTime.every(showsAll);
    },
    toLoss: (step) => {
      const window = overTime[0]?.window;
      const found = window && nextLoss(losses, window, step);
      if (!found) return false;
      overTime.forEach((chart) => chart.setWindow(...found));
      onWindow(...found);
      return true;
    },
    setWindow: (window) => overTime.forEach((chart) => chart.setWindow(...(window ?? chart.all))),
    zoom: (how) => {
      driven.forEach((chart) => chart.setWindow(...nextWindow(chart, how, choice.focus)));
      if (overTime[0]) onWindow(...overTime[0].window);
    },
    redraw: () => {
      for (const draw of keys) draw();
      for (const chart of charts) chart.redraw();
    },
    close: () => {
      charts.forEach((chart) => chart.destroy());
      holder.replaceChildren();
    },
  };
}

// The times of lost packets in the charts over time, in order.
function lossesOf(choice: Choice): number[] {
  const panels = choice.figures.flatMap((figure) => figure.panels.filter((panel) => panel.zoom === "time"));
  const layers = panels.flatMap((panel) => panel.layers.filter((layer) => layer.rare && layer.name === "lost packet"));
  return [...new Set(layers.flatMap((layer) => [...(layer.x ?? [])]))].sort((one, other) => one - other);
}

// A window of this width, or a hundredth of all where everything is shown, around the first loss beyond the window.
export function nextLoss(losses: readonly number[], [low, high]: Ends, step: 1 | -1): Ends | null {
  const [first, last] = [losses[0], losses.at(-1)];
  if (first === undefined || last === undefined) return null;
  const isWide = low <= first && high >= last && last > first;
  const width = isWide ? (last - first) / 100 : high - low;
  const beyond = step > 0 ? losses.find((one) => isWide || one > high) : losses.findLast((one) => isWide || one < low);
  if (beyond === undefined) return null;
  // A little before the loss, and most of the width after it; backwards the other way round.
  return step > 0 ? [beyond - width / 5, beyond + (4 * width) / 5] : [beyond - (4 * width) / 5, beyond + width / 5];
}

export function nextWindow(chart: Pick<Chart, "panel" | "window" | "all">, how: string, focus: Ends | null): Ends {
  const [warp, unwarp] = warpOf(chart.panel.x);
  const [low, high] = [warp(chart.window[0]), warp(chart.window[1])];
  const [least, greatest] = [warp(chart.all[0]), warp(chart.all[1])];
  const span = high - low;
  const between = (from: number, to: number): Ends => [unwarp(from), unwarp(to)];
  switch (how) {
    case "in":
      return between(low + span / 4, high - span / 4);
    case "out":
      return between(low - span / 2, high + span / 2);
    case "left": {
      const by = Math.min(span / 2, low - least);
      return between(low - by, high - by);
    }
    case "right": {
      const by = Math.min(span / 2, greatest - high);
      return between(low + by, high + by);
    }
    case "focus":
      return focus ?? chart.all;
    default:
      return chart.all;
  }
}

const NOTE = "Drawn from a part of the marks to keep this page small; those with a number in the legend are all there.";

// One figure: its words, and a pair of axes, or several to be compared. A page may have a place and words for it.
function showFigure(holder: HTMLElement, figure: Figure, styles: readonly Style[], onZoom: OnZoom, keys: (() => void)[]): { place: HTMLElement; own: Chart[] } {
  const heading = holder.parentElement?.querySelector("h2")?.textContent ?? "";
  const place = document.getElementById(`figure-${figure.key}`) ?? holder.appendChild(placeOf(figure, heading));
  const panels = place.querySelector<HTMLElement>(".panels") ?? place;
  panels.style.setProperty("--columns", String(figure.columns));
  if (figure.panels.some((panel) => panel.layers.some((layer) => layer.shown < layer.rows))) {
    place.append(element("p", { class: "small" }, NOTE));
  }
  const shown = figure.panels.map((panel) => showPanel(panels, figure, panel, styles, onZoom));
  const charts = shown.map(({ chart }) => chart);
  if (figure.legend) {
    panels.before(legendOf(figure.legend, charts, styles, keys, figure.title));
    return { place, own: charts };
  }
  for (const { chart, drawn } of shown) {
    const { legend, title } = chart.panel;
    if (legend.length > 0) drawn.before(legendOf(legend, [chart], styles, keys, title || figure.title));
  }
  return { place, own: charts };
}

function placeOf(figure: Figure, heading: string): HTMLElement {
  const words = [figure.see, ...figure.notes].filter((text) => text);
  return element(
    "section",
    { class: "figure", id: `figure-${figure.key}` },
    ...(heading === figure.title ? [] : [element("h3", {}, figure.title)]),
    element("div", { class: "panels" }),
    ...words.map((text) => element("p", { class: "see" }, text)),
  );
}

function showPanel(
  holder: HTMLElement, figure: Figure, panel: Panel, styles: readonly Style[], onZoom: OnZoom,
): { chart: Chart; drawn: HTMLElement } {
  const words = [panel.title, figure.title, figure.see].filter((text) => text).join(". ");
  const drawn = element("div", { class: "plot", role: "img", "aria-label": words });
  const title = panel.title ? [element("h4", {}, panel.title)] : [];
  holder.append(element("div", { class: "panel" }, ...title, drawn));
  return { chart: makeChart(drawn, panel, styles, onZoom), drawn };
}
