// Drawing the marks of a layer on a chart's canvas, and the little pictures of the legend.

import { at, rowsWithin, type Layer, type Mark, type Style } from "./figure";

// Maps values to canvas pixels, within the axes' rectangle.
export interface Scale {
  x: (value: number) => number;
  y: (value: number) => number;
  left: number;
  right: number;
  top: number;
  foot: number;
  low: number;
  high: number;
  ratio: number;
}

type Context = CanvasRenderingContext2D;
type Place = [number, number];

function polygon(ctx: Context, corners: readonly Place[]): void {
  corners.forEach(([x, y], number) => (number ? ctx.lineTo(x, y) : ctx.moveTo(x, y)));
  ctx.closePath();
}

type Shape = (ctx: Context, x: number, y: number, r: number) => void;

const circle: Shape = (ctx, x, y, r) => {
  ctx.moveTo(x + r, y);
  ctx.arc(x, y, r, 0, 2 * Math.PI);
};

const SHAPES: Record<string, Shape> = {
  dot: circle,
  ring: circle,
  square: (ctx, x, y, r) => ctx.rect(x - r, y - r, 2 * r, 2 * r),
  cross: (ctx, x, y, r) => {
    ctx.moveTo(x - r, y - r);
    ctx.lineTo(x + r, y + r);
    ctx.moveTo(x + r, y - r);
    ctx.lineTo(x - r, y + r);
  },
  "triangle-up": (ctx, x, y, r) => polygon(ctx, [[x, y - r], [x + r, y + r], [x - r, y + r]]),
  "triangle-down": (ctx, x, y, r) => polygon(ctx, [[x, y + r], [x + r, y - r], [x - r, y - r]]),
  plus: (ctx, x, y, r) => {
    const a = r / 3;
    const corners: Place[] = [
      [a, a], [r, a], [r, -a], [a, -a], [a, -r], [-a, -r], [-a, -a], [-r, -a], [-r, a], [-a, a], [-a, r], [a, r],
    ];
    polygon(ctx, corners.map(([across, along]) => [x + across, y + along]));
  },
  diamond: (ctx, x, y, r) => polygon(ctx, [[x, y - r], [x + r, y], [x, y + r], [x - r, y]]),
};

export function drawLayer(ctx: Context, layer: Layer, style: Style, colour: string, scale: Scale): void {
  const [first, last] = rowsWithin(layer, scale.low, scale.high);
  ctx.save();
  ctx.globalAlpha = style.opacity;
  ctx.strokeStyle = colour;
  ctx.fillStyle = colour;
  ctx.lineWidth = style.width * scale.ratio;
  ctx.setLineDash(style.dash.map((length) => length * scale.ratio));
  DRAWS[layer.mark](ctx, layer, first, last, scale, style);
  ctx.restore();
}

type Draw = (ctx: Context, layer: Layer, first: number, last: number, scale: Scale, style: Style) => void;

const line: Draw = (ctx, layer, first, last, scale) => {
  ctx.lineJoin = "round";
  ctx.beginPath();
  let joined = false;
  for (let row = first; row < last; row += 1) {
    const value = at(layer.y, row);
    const known = !Number.isNaN(value);
    if (known && joined) ctx.lineTo(scale.x(at(layer.x, row)), scale.y(value));
    else if (known) ctx.moveTo(scale.x(at(layer.x, row)), scale.y(value));
    joined = known;
  }
  ctx.stroke();
};

const band: Draw = (ctx, layer, first, last, scale) => {
  ctx.beginPath();
  for (let row = first; row < last; row += 1) ctx.lineTo(scale.x(at(layer.x, row)), scale.y(at(layer.y, row)));
  for (let row = last - 1; row >= first; row -= 1) ctx.lineTo(scale.x(at(layer.x, row)), scale.y(at(layer.y2, row)));
  ctx.fill();
};

const step: Draw = (ctx, layer, first, last, scale) => {
  ctx.beginPath();
  for (let row = first; row < last; row += 1) {
    const x = scale.x(at(layer.x, row));
    if (row > first) ctx.lineTo(x, scale.y(at(layer.y, row - 1)));
    ctx.lineTo(x, scale.y(at(layer.y, row)));
  }
  ctx.stroke();
};

const spans: Draw = (ctx, layer, first, last, scale) => {
  // A packet stays visible where its length is less than a pixel.
  const least = 1.5 * scale.ratio;
  ctx.beginPath();
  for (let row = first; row < last; row += 1) {
    const x = scale.x(at(layer.x, row));
    const bottom = scale.y(at(layer.y, row));
    ctx.moveTo(x, bottom);
    ctx.lineTo(x, Math.min(scale.y(at(layer.y2, row)), bottom - least));
  }
  ctx.stroke();
};

const slants: Draw = (ctx, layer, first, last, scale) => {
  ctx.beginPath();
  for (let row = first; row < last; row += 1) {
    ctx.moveTo(scale.x(at(layer.x, row)), scale.y(at(layer.y, row)));
    ctx.lineTo(scale.x(at(layer.x2, row)), scale.y(at(layer.y2, row)));
  }
  ctx.stroke();
};

const bars: Draw = (ctx, layer, first, last, scale) => {
  for (let row = first; row < last; row += 1) {
    const x = scale.x(at(layer.x, row));
    const x2 = scale.x(at(layer.x2, row));
    const y = scale.y(at(layer.y, row));
    const y2 = scale.y(at(layer.y2, row));
    const width = Math.abs(x2 - x);
    const gap = width > 4 * scale.ratio ? scale.ratio / 2 : 0;
    ctx.fillRect(Math.min(x, x2) + gap, Math.min(y, y2), Math.max(width - 2 * gap, scale.ratio), Math.abs(y2 - y));
  }
};

const rule: Draw = (ctx, layer, _first, _last, scale) => {
  ctx.beginPath();
  if (layer.y) {
    const y = scale.y(at(layer.y, 0));
    ctx.moveTo(scale.left, y);
    ctx.lineTo(scale.right, y);
  } else {
    const x = scale.x(at(layer.x, 0));
    ctx.moveTo(x, scale.top);
    ctx.lineTo(x, scale.foot);
  }
  ctx.stroke();
};

const text: Draw = (ctx, layer, first, last, scale) => {
  ctx.font = `${12 * scale.ratio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  ctx.textBaseline = "middle";
  for (let row = first; row < last; row += 1) {
    ctx.fillText(layer.text?.[row] ?? "", scale.x(at(layer.x, row)), scale.y(at(layer.y, row)));
  }
};

const points: Draw = (ctx, layer, first, last, scale, style) => {
  // A thousand crosses at full size would hide all else: where many are in view they are smaller, down to half.
  const crowding = layer.rare ? Math.max(0.5, Math.min(1, Math.sqrt(300 / Math.max(1, last - first)))) : 1;
  const radius = (style.size / 2) * crowding * scale.ratio;
  ctx.lineWidth *= crowding;
  const shape = SHAPES[style.shape] ?? circle;
  const finish = (): void => (style.hollow ? ctx.stroke() : ctx.fill());
  ctx.beginPath();
  for (let row = first; row < last; row += 1) {
    // The time for one path grows with the square of what it holds. Where marks shine through, parts would show.
    if (row > first && (row - first) % MOST_IN_PATH === 0 && style.opacity === 1) {
      finish();
      ctx.beginPath();
    }
    const y = scale.y(at(layer.y, row));
    // A rare event that a zoom would hide above or below stands at the edge.
    shape(ctx, scale.x(at(layer.x, row)), layer.rare ? Math.min(Math.max(y, scale.top), scale.foot) : y, radius);
  }
  finish();
};

const MOST_IN_PATH = 200;

const DRAWS: Record<Mark, Draw> = { points, line, outline: line, band, step, spans, slants, bars, rule, text };

// The picture of a layer in the legend, on a canvas of its own.
export function drawKey(canvas: HTMLCanvasElement, layer: Layer, style: Style, colour: string): void {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = KEY.width * ratio;
  canvas.height = KEY.height * ratio;
  const ctx = canvas.getContext("2d");
  if (ctx) drawKeyInto(ctx, 0, 0, ratio, layer, style, colour);
}

export const KEY = { width: 26, height: 14 };

// The same at a place of a larger picture.
export function drawKeyInto(
  ctx: Context, left: number, top: number, ratio: number, layer: Layer, style: Style, colour: string,
): void {
  const { width, height } = KEY;
  const scale: Scale = {
    x: (value) => left + value * ratio, y: (value) => top + value * ratio, ratio, low: -1, high: width + 1, left,
    right: left + width * ratio, top, foot: top + height * ratio,
  };
  drawLayer(ctx, keyOf(layer, width, height / 2), style, colour, scale);
}

function keyOf(layer: Layer, width: number, middle: number): Layer {
  const { x2: _x2, y2: _y2, ...plain } = layer;
  const key: Layer = { ...plain, x: [width / 2], y: [middle], reach: 0 };
  switch (layer.mark) {
    case "line": case "outline": case "step": case "rule": case "slants":
      return { ...key, mark: "line", x: [1, width - 1], y: [middle, middle] };
    case "spans":
      return { ...key, x: [7, 13, 19], y: [12, 10, 8], y2: [6, 4, 2] };
    case "bars": case "band":
      return { ...key, mark: "bars", x: [8], x2: [18], y: [2], y2: [12] };
    default:
      return key;
  }
}
