// Charts of what goes on, such as a running test: each appears with its first point, and all show the same time.

import { makeChart, type Chart } from "../../figures/chart";
import { element } from "../../figures/element";
import type { Axis, Layer, Panel, Style } from "../../figures/figure";
import { legendOf } from "../../figures/legend";
import { count } from "../words";

export type Points = Record<string, [number, number][]>;

export interface Kind {
  title: string;
  unit: string;
  note?: string;
}

// In their order on the page; the server calls a series CHART/NAME.
export const KINDS: Readonly<Record<string, Kind>> = {
  up: { title: "Goodput up", unit: "Mbit/s" },
  down: { title: "Goodput down", unit: "Mbit/s" },
  rtt: { title: "Round-trip time of probes", unit: "ms" },
  "delay-up": { title: "One-way delay up", unit: "ms", note: "By the clocks as they are known so far; the recording has the final correction." },
  "delay-down": { title: "One-way delay down", unit: "ms", note: "By the clocks as they are known so far; the recording has the final correction." },
  loss: { title: "Loss", unit: "%", note: "Of the probes and packets of each second." },
  retransmissions: { title: "TCP retransmissions", unit: "packets/s" },
  window: { title: "Congestion window", unit: "packets", note: "As the sender's kernel reports it." },
  "kernel-rtt": { title: "Round-trip time that TCP sees", unit: "ms", note: "Smoothed, as the sender's kernel reports it." },
  limited: { title: "Time that something other than the path limits a sender", unit: "% of the time", note: "As the sender's kernel reports it. A flow has a line from when it is limited for the first time." },
  fetches: { title: "Duration of HTTP fetches", unit: "ms" },
  values: { title: "Other values", unit: "" },
};

const TOGETHER = "all flows";

// Okabe and Ito's colours, which differ for colour-blind readers; dashes tell those that repeat.
const COLOURS: readonly [string, string][] = [
  ["#0072b2", "#56b4e9"], ["#d55e00", "#ff8a4c"], ["#009e73", "#2fc79b"], ["#cc79a7", "#e39cc4"],
  ["#b8860b", "#e6b800"], ["#4d4d4d", "#c8c8c8"], ["#7b3294", "#c2a5cf"],
];
const DASHES: readonly number[][] = [[], [6, 3], [2, 2], [8, 3, 2, 3]];

const PLAIN: Style = { light: "#1a1f24", dark: "#f2f4f6", shape: "dot", size: 4, width: 2.6, dash: [], opacity: 1, hollow: false };

// The last value of each series as a table.
export function latestTable(plots: Plots): HTMLElement {
  const rows = plots.latest().map(({ chart, name, value, unit }) => element("tr", {},
    element("td", {}, chart), element("td", {}, name), element("td", { class: "number" }, `${value >= 1e4 ? count(value) : String(Number(value.toPrecision(4)))} ${unit}`)));
  const head = element("thead", {}, element("tr", {}, ...["Chart", "Series", "Last value"].map((words) => element("th", { scope: "col" }, words))));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Latest values" }, element("table", {}, head, element("tbody", {}, ...rows)));
}

function styleOf(number: number): Style {
  const [light, dark] = COLOURS[number % COLOURS.length] ?? ["#0072b2", "#56b4e9"];
  return { ...PLAIN, light, dark, width: 1.5, dash: DASHES[Math.floor(number / COLOURS.length) % DASHES.length] ?? [] };
}

// The first one is that of the sum.
const STYLES: readonly Style[] = [PLAIN, ...Array.from({ length: COLOURS.length * DASHES.length }, (_, number) => styleOf(number))];

// Puts points into a layer, in order of time; one of a time that is there already replaces it.
export function put(layer: Layer, points: readonly [number, number][]): void {
  const [x, y] = [layer.x as number[], layer.y as number[]];
  for (const [time, value] of points) {
    let at = x.length;
    while (at > 0 && (x[at - 1] ?? 0) >= time) at -= 1;
    if (x[at] === time) {
      y[at] = value;
    } else {
      x.splice(at, 0, time);
      y.splice(at, 0, value);
    }
  }
}

interface Grown {
  panel: Panel;
  place: HTMLElement;
  drawn: HTMLElement;
  chart: Chart | null;
}

export class Plots {
  readonly element = element("div", { class: "live" });
  private readonly grown = new Map<string, Grown>();
  private readonly styles = new Map<string, number>();
  private readonly keys: (() => void)[] = [];
  private startS = Infinity;
  private endS = -Infinity;
  private zoomed: [number, number] | null = null;
  private isDue = false;

  constructor(private readonly kinds: Readonly<Record<string, Kind>> = KINDS) {}

  add(series: Points): void {
    for (const [name, points] of Object.entries(series)) {
      const kind = name.slice(0, name.indexOf("/"));
      if (!(kind in this.kinds) || points.length === 0) continue;
      put(this.layerOf(this.grown.get(kind) ?? this.grow(kind), name.slice(kind.length + 1)), points);
      for (const [time] of points) {
        this.startS = Math.min(this.startS, time);
        this.endS = Math.max(this.endS, time);
      }
    }
    this.draw();
  }

  // The last value of each series, for those who read and do not see.
  latest(): { chart: string; name: string; value: number; unit: string }[] {
    return [...this.grown].flatMap(([kind, { panel }]) => panel.layers.map((layer) => ({
      chart: panel.title, name: layer.name, value: layer.y?.[layer.y.length - 1] ?? NaN, unit: this.kinds[kind]?.unit ?? "",
    })));
  }

  redraw(): void {
    this.keys.forEach((key) => key());
    for (const { chart } of this.grown.values()) chart?.redraw();
  }

  destroy(): void {
    for (const { chart } of this.grown.values()) chart?.destroy();
    this.element.remove();
  }

  private grow(name: string): Grown {
    const kind = this.kinds[name] ?? { title: name, unit: "" };
    const title = kind.unit ? `${kind.title} (${kind.unit})` : kind.title;
    const axis: Axis = { title: kind.unit, scale: "linear", ends: [0, 1], fixed: false, fromZero: name === "values" ? "never" : "always", words: [], zeros: null };
    const time: Axis = { ...axis, title: "Time (UTC)", scale: "time", fromZero: "never" };
    const panel: Panel = { title: kind.title, zoom: "time", x: time, y: axis, legendTitle: "", legend: [], height: 200, layers: [] };
    const drawn = element("div", { class: "plot", role: "img", "aria-label": `${title} over time; the table of latest values has its last points` });
    const place = element("section", { class: "figure" }, element("h2", {}, title), ...(kind.note ? [element("p", { class: "small" }, kind.note)] : []), drawn);
    const made: Grown = { panel, place, drawn, chart: null };
    this.grown.set(name, made);
    const order = Object.keys(this.kinds).filter((one) => this.grown.has(one));
    this.element.replaceChildren(...order.map((one) => this.grown.get(one)?.place ?? ""));
    return made;
  }

  private layerOf(grown: Grown, name: string): Layer {
    const found = grown.panel.layers.find((layer) => layer.name === name);
    if (found) return found;
    const made: Layer = {
      name, style: this.styleFor(name), mark: "line", rare: false, helper: false, counted: false,
      stretch: true, rows: 0, shown: 0, visible: true, reach: 0, x: [], y: [],
    };
    grown.panel.layers.push(made);
    grown.chart?.destroy();
    grown.chart = null;
    return made;
  }

  // A flow has the same colour in all charts.
  private styleFor(name: string): number {
    if (name === TOGETHER) return 0;
    const known = this.styles.get(name) ?? 1 + (this.styles.size % (STYLES.length - 1));
    this.styles.set(name, known);
    return known;
  }

  private draw(): void {
    if (this.isDue) return;
    this.isDue = true;
    // Once for all events that came since the last picture; not at all in a hidden tab.
    requestAnimationFrame(() => {
      this.isDue = false;
      if (this.endS <= this.startS) return;
      for (const grown of this.grown.values()) {
        grown.panel.x.ends = [this.startS, this.endS];
        grown.chart ??= this.chartOf(grown);
        grown.chart.setWindow(...(this.zoomed ?? [this.startS, this.endS]));
      }
    });
  }

  private chartOf(grown: Grown): Chart {
    grown.drawn.replaceChildren();
    grown.place.querySelector(".legend")?.remove();
    const chart = makeChart(grown.drawn, grown.panel, STYLES, (_, low, high) => this.zoom(low, high));
    grown.drawn.before(legendOf(grown.panel.layers.map(({ name }) => name), [chart], STYLES, this.keys, grown.panel.title));
    return chart;
  }

  // All charts show the same time; the whole of it follows the test.
  private zoom(low: number, high: number): void {
    this.zoomed = low <= this.startS && high >= this.endS ? null : [low, high];
    this.draw();
  }
}
