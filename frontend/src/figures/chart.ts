// One pair of axes: uPlot gives axes, zoom and cursor; the layers are drawn into it, each with its own x.

import uPlot from "uplot";
import { axisOf, heightOf, warpOf } from "./axis";
import { rangeOfY, type Ends, type Layer, type Panel, type Style } from "./figure";
import { drawLayer, type Scale } from "./marks";
import { nearest, wordsOf } from "./nearest";
import { writeAxes } from "./axis_svg";
import type { SvgContext } from "./svg";
import { colourOf, cssColour } from "./theme";

export interface Chart {
  panel: Panel;
  readonly all: Ends;
  readonly window: Ends;
  setWindow: (low: number, high: number) => void;
  redraw: () => void;
  destroy: () => void;
  // Brings the lines of a name forward, and the others back; null: all as they are.
  light: (name: string | null) => void;
  // Called with the name of the mark under the pointer when it changes.
  onHover: (listener: (name: string | null) => void) => void;
  // What the chart shows, as pixels and as SVG.
  readonly canvas: HTMLCanvasElement;
  readonly size: { width: number; height: number };
  writeInto: (svg: SvgContext, left: number, top: number) => void;
}

// True where a chart shows its whole axis; a window on a logarithmic axis is rounded on its way there and back.
export function showsAll({ window: [low, high], all: [least, greatest] }: Pick<Chart, "window" | "all">): boolean {
  const little = (greatest - least) * 1e-6;
  return low <= least + little && high >= greatest - little;
}

// Called with every new window of x that the reader chooses.
export type OnZoom = (chart: Chart, low: number, high: number) => void;

export function makeChart(place: HTMLElement, panel: Panel, styles: readonly Style[], onZoom: OnZoom): Chart {
  const size = (): { width: number; height: number } => ({
    width: place.clientWidth,
    height: heightOf(panel, place.clientWidth),
  });
  const state = { window: panel.x.ends, lit: null as string | null, hovered: null as string | null };
  const listeners: ((name: string | null) => void)[] = [];
  const hover = (name: string | null): void => {
    if (name === state.hovered) return;
    state.hovered = name;
    chart.light(name);
    listeners.forEach((listener) => listener(name));
  };
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  const plot = new uPlot(
    {
      ...size(),
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
      scales: {
        x: { time: panel.x.scale === "time", distr: panel.x.scale === "log" ? 3 : 1, range: () => state.window },
        y: { distr: panel.y.scale === "log" ? 3 : 1, range: () => rangeOfY(panel, ...state.window) },
      },
      series: [{}, { show: true, paths: () => null, points: { show: false } }],
      axes: [axisOf(panel.x, place, false, size().height), axisOf(panel.y, place, true, size().height)],
      legend: { show: false },
      padding: [10, 14, 0, 4],
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
      hooks: {
        draw: [(drawn) => drawPanel(drawn.ctx, scaleOf(drawn), panel, styles, state.lit)],
        setSelect: [(drawn) => zoomToSelection(drawn, (low, high) => onZoom(chart, low, high))],
        setCursor: [(drawn) => hover(showNearest(drawn, panel, styles, tip))],
      },
    },
    [panel.x.ends, [0, 1]],
    place,
  );
  plot.over.append(tip);
  plot.over.addEventListener("dblclick", () => onZoom(chart, ...panel.x.ends));
  plot.over.addEventListener("mouseleave", () => {
    tip.hidden = true;
    hover(null);
  });
  panByTouch(plot, (low, high) => onZoom(chart, low, high));
  const observer = new ResizeObserver(() => plot.setSize(size()));
  observer.observe(place);
  const chart: Chart = {
    panel,
    get all() {
      return panel.x.ends;
    },
    get window() {
      return state.window;
    },
    setWindow: (low, high) => {
      state.window = clamped(panel, low, high);
      plot.setData([state.window, [0, 1]], true);
    },
    redraw: () => plot.redraw(true, true),
    light: (name) => {
      const lit = name !== null && isOneOfSeveral(panel, name) ? name : null;
      if (lit === state.lit) return;
      state.lit = lit;
      plot.redraw(false, false);
    },
    onHover: (listener) => void listeners.push(listener),
    destroy: () => {
      observer.disconnect();
      plot.destroy();
    },
    get canvas() {
      return plot.ctx.canvas;
    },
    get size() {
      return { width: plot.width, height: plot.height };
    },
    writeInto: (svg, left, top) => {
      const ratio = 1 / (window.devicePixelRatio || 1);
      const { left: across, top: down, width, height } = plot.bbox;
      const frame = { left: left + across * ratio, top: top + down * ratio, width: width * ratio, height: height * ratio };
      const scale = scaleOf(plot, frame, 1);
      writeAxes(svg, plot, scale, left);
      // It knows all of a canvas that the marks use.
      drawPanel(svg as unknown as CanvasRenderingContext2D, scale, panel, styles, null);
    },
  };
  return chart;
}

// A window within the axis, and no closer than a microsecond or a millionth of the whole: beyond that numbers lose digits.
function clamped(panel: Panel, low: number, high: number): Ends {
  const [warp, unwarp] = warpOf(panel.x);
  const [least, greatest] = [warp(panel.x.ends[0]), warp(panel.x.ends[1])];
  const [from, to] = [warp(low), warp(high)];
  const closest = Math.max(1e-6, (greatest - least) * 1e-6);
  const span = Math.min(Math.max(to - from, closest), greatest - least);
  const start = Math.min(Math.max((from + to - span) / 2, least), greatest - span);
  return [unwarp(start), unwarp(start + span)];
}

function zoomToSelection(plot: uPlot, zoom: (low: number, high: number) => void): void {
  const { left, width } = plot.select;
  if (width < 4) return;
  const [low, high] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
  plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
  zoom(low, high);
}

// A finger that moves sideways moves the window of a zoomed chart; up and down it scrolls the page.
function panByTouch(plot: uPlot, onMove: (low: number, high: number) => void): void {
  let from: { at: number; low: number; high: number } | null = null;
  plot.over.style.touchAction = "pan-y";
  plot.over.addEventListener("pointerdown", (event) => {
    const { min, max } = plot.scales["x"] ?? {};
    if (event.pointerType === "touch" && min !== undefined && max !== undefined) {
      from = { at: event.clientX, low: min, high: max };
    }
  });
  plot.over.addEventListener("pointermove", (event) => {
    if (from === null) return;
    const moved = ((from.at - event.clientX) / plot.over.clientWidth) * (from.high - from.low);
    onMove(from.low + moved, from.high + moved);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    plot.over.addEventListener(end, () => {
      from = null;
    });
  }
}

// The mapping from values to canvas pixels, without a call into uPlot for each point.
function scaleOf(plot: uPlot, frame: uPlot.BBox = plot.bbox, ratio = window.devicePixelRatio || 1): Scale {
  const { left, top, width, height } = frame;
  const { min: low = 0, max: high = 1, distr: across } = plot.scales["x"] ?? {};
  const { min: bottom = 0, max: up = 1, distr: along } = plot.scales["y"] ?? {};
  const shareAcross = shareBetween(low, high, across === 3);
  const shareAlong = shareBetween(bottom, up, along === 3);
  return {
    x: (value) => left + shareAcross(value) * width,
    y: (value) => top + (1 - shareAlong(value)) * height,
    left,
    right: left + width,
    top,
    foot: top + height,
    low,
    high,
    ratio,
  };
}

// Where a value lies between two ends, as a share.
function shareBetween(from: number, to: number, isLog: boolean): (value: number) => number {
  return isLog ? (value) => Math.log(value / from) / Math.log(to / from) : (value) => (value - from) / (to - from);
}

// True for a name that is shown beside others.
function isOneOfSeveral(panel: Panel, name: string): boolean {
  const names = new Set(panel.layers.filter((layer) => layer.visible && layer.name !== "").map((layer) => layer.name));
  return names.size > 1 && names.has(name);
}

const THICKER = 2;
const BACK = 0.35;

// The name of a layer; samples that are drawn beneath their moving average have none, and its colour.
export function nameOf(panel: Panel, styles: readonly Style[], layer: Layer): string {
  const colour = styles[layer.style]?.light;
  return layer.name || (panel.layers.find(({ name, style }) => name !== "" && styles[style]?.light === colour)?.name ?? "");
}

// A style as it is where the lines of a name are lit: theirs thicker, that of others fainter. Rare marks stay as they are.
export function inLight(style: Style, name: string, isRare: boolean, lit: string | null): Style {
  if (lit === null) return style;
  if (name === lit) return { ...style, width: style.width * THICKER, size: style.size * (isRare ? 1 : Math.SQRT2) };
  return isRare || name === "" ? style : { ...style, opacity: style.opacity * BACK };
}

function drawPanel(ctx: CanvasRenderingContext2D, scale: Scale, panel: Panel, styles: readonly Style[], lit: string | null): void {
  drawZeros(ctx, panel, scale);
  // What is lit is drawn above the others.
  const layers = [...panel.layers.filter(({ name }) => name !== lit), ...panel.layers.filter(({ name }) => name === lit)];
  for (const layer of layers) {
    const own = styles[layer.style];
    const style = own && inLight(own, nameOf(panel, styles, layer), layer.rare, lit);
    if (!layer.visible || !style) continue;
    // Rare marks on the base line are seen whole, so their clip is a little wider than the axes.
    const room = layer.rare ? 6 * scale.ratio : 0;
    ctx.save();
    ctx.beginPath();
    ctx.rect(scale.left - room, scale.top - room, scale.right - scale.left + 2 * room, scale.foot - scale.top + 2 * room);
    ctx.clip();
    drawLayer(ctx, layer, style, colourOf(style), scale);
    ctx.restore();
  }
  if (panel.layers.length === 0) drawNoData(ctx, scale);
}

function drawNoData(ctx: CanvasRenderingContext2D, scale: Scale): void {
  ctx.save();
  ctx.fillStyle = cssColour("--soft");
  ctx.font = `${12 * scale.ratio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.fillText("no data", (scale.left + scale.right) / 2, (scale.top + scale.foot) / 2);
  ctx.restore();
}

const PLAIN: Style = { light: "", dark: "", shape: "dot", size: 1, width: 0.8, dash: [3, 3], opacity: 1, hollow: false };

// Where a logarithmic axis ends and its zeros begin.
function drawZeros(ctx: CanvasRenderingContext2D, panel: Panel, scale: Scale): void {
  for (const name of ["x", "y"] as const) {
    const { zeros } = panel[name];
    if (!zeros) continue;
    const rule: Layer = {
      name: "", style: 0, mark: "rule", rare: false, helper: true, counted: false, stretch: false, rows: 1, shown: 1,
      visible: true, reach: 0, [name]: [zeros[1]],
    };
    drawLayer(ctx, rule, PLAIN, cssColour("--soft"), scale);
  }
}

// Shows the words of the nearest mark at the cursor, and gives its name.
function showNearest(plot: uPlot, panel: Panel, styles: readonly Style[], tip: HTMLElement): string | null {
  const best = nearest(plot, panel);
  tip.hidden = best === null;
  if (best === null) return null;
  tip.textContent = wordsOf(panel, best);
  const style = styles[best.layer.style];
  if (style) tip.style.borderColor = colourOf(style);
  const [x, y] = [plot.valToPos(best.at, "x"), plot.valToPos(best.value, "y")];
  const { clientWidth: width, clientHeight: height } = plot.over;
  const toLeft = x > width / 2;
  tip.style.left = toLeft ? "" : `${x + 12}px`;
  tip.style.right = toLeft ? `${width - x + 12}px` : "";
  tip.style.top = `${Math.max(0, Math.min(y - 14, height - 40))}px`;
  return nameOf(panel, styles, best.layer);
}
