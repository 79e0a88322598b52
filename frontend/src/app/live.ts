// Charts that grow while a test runs: one for rates, one for delays, with a line for each flow.

import { makeChart, type Chart } from "../figures/chart";
import { element } from "../figures/element";
import type { Axis, Layer, Panel, Style } from "../figures/figure";
import { legendOf } from "../figures/legend";

export type Points = Record<string, [number, number][]>;

// Okabe and Ito's colours, which differ for colour-blind readers; dashes tell the second eight.
const COLOURS: readonly [string, string][] = [
  ["#0072b2", "#56b4e9"], ["#d55e00", "#ff8a4c"], ["#009e73", "#2fc79b"], ["#cc79a7", "#e39cc4"],
  ["#b8860b", "#e6b800"], ["#56b4e9", "#9ad4f5"], ["#4d4d4d", "#c8c8c8"], ["#7b3294", "#c2a5cf"],
];

function styleOf(number: number): Style {
  const [light, dark] = COLOURS[number % COLOURS.length] ?? ["#0072b2", "#56b4e9"];
  return { light, dark, shape: "dot", size: 4, width: 1.6, dash: number < COLOURS.length ? [] : [5, 3], opacity: 1, hollow: false };
}

const STYLES: readonly Style[] = Array.from({ length: 64 }, (_, number) => styleOf(number));

interface Grown {
  panel: Panel;
  place: HTMLElement;
  drawn: HTMLElement;
  chart: Chart | null;
}

export class Live {
  readonly element = element("div", { class: "live" });
  private readonly charts: Record<string, Grown>;
  private startS = Infinity;
  private endS = -Infinity;
  private readonly keys: (() => void)[] = [];

  constructor() {
    this.charts = { goodput: this.grow("Goodput", "Mbit/s"), delay: this.grow("Round-trip time", "ms") };
  }

  // Adds points; those of a series come in their order.
  add(series: Points): void {
    for (const [name, points] of Object.entries(series)) {
      const [kind = "", flow = ""] = [name.slice(0, name.indexOf("/")), name.slice(name.indexOf("/") + 1)];
      const grown = this.charts[kind];
      if (!grown) continue;
      const layer = this.layerOf(grown, flow);
      for (const [time, value] of points) {
        this.startS = Math.min(this.startS, time);
        this.endS = Math.max(this.endS, time);
        (layer.x as number[]).push(time);
        (layer.y as number[]).push(value);
      }
    }
    this.draw();
  }

  redraw(): void {
    this.keys.forEach((key) => key());
    for (const grown of Object.values(this.charts)) grown.chart?.redraw();
  }

  private grow(title: string, unit: string): Grown {
    const axis: Axis = { title: `${title} (${unit})`, scale: "linear", ends: [0, 1], fixed: false, fromZero: "always", words: [], zeros: null };
    const time: Axis = { ...axis, title: "Time (UTC)", scale: "time", fromZero: "never" };
    const panel: Panel = { title, zoom: "time", x: time, y: axis, legendTitle: "", legend: [], height: 220, layers: [] };
    const drawn = element("div", { class: "plot", role: "img", "aria-label": `${title} of each flow over time` });
    const place = element("section", { class: "figure" }, element("h3", {}, title), drawn);
    this.element.append(place);
    return { panel, place, drawn, chart: null };
  }

  private layerOf(grown: Grown, name: string): Layer {
    const found = grown.panel.layers.find((layer) => layer.name === name);
    if (found) return found;
    const made: Layer = {
      name, style: grown.panel.layers.length % STYLES.length, mark: "line", rare: false, helper: false, counted: false,
      stretch: true, rows: 0, shown: 0, visible: true, reach: 0, x: [], y: [],
    };
    grown.panel.layers.push(made);
    grown.chart?.destroy();
    grown.chart = null;
    return made;
  }

  private draw(): void {
    if (this.endS <= this.startS) return;
    for (const grown of Object.values(this.charts)) {
      if (grown.panel.layers.length === 0) continue;
      grown.panel.x.ends = [this.startS, this.endS];
      grown.chart ??= this.chartOf(grown);
      grown.chart.setWindow(this.startS, this.endS);
    }
  }

  private chartOf(grown: Grown): Chart {
    grown.drawn.replaceChildren();
    grown.place.querySelector(".legend")?.remove();
    const chart = makeChart(grown.drawn, grown.panel, STYLES, (drawn, low, high) => drawn.setWindow(low, high));
    grown.drawn.before(legendOf(grown.panel.layers.map(({ name }) => name), [chart], STYLES, this.keys, grown.panel.title));
    return chart;
  }
}
