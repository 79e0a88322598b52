// The mark nearest to the cursor, and its words.

import type uPlot from "uplot";
import { at, rowsWithin, type Axis, type Layer, type Panel } from "./figure";
import { inWords, number, unitOf } from "./numbers";

const REACH_PIXELS = 24;

export interface Nearest {
  distance: number;
  layer: Layer;
  row: number;
  at: number;
  value: number;
}

// Rare marks win over lines that are as near.
export function nearest(plot: uPlot, panel: Panel): Nearest | null {
  const { left = -1, top = -1 } = plot.cursor;
  if (left < 0) return null;
  let best: Nearest | null = null;
  for (const layer of panel.layers) {
    if (!layer.visible || layer.mark === "rule" || layer.mark === "text") continue;
    const [first, last] = rowsWithin(layer, plot.posToVal(left - REACH_PIXELS, "x"), plot.posToVal(left + REACH_PIXELS, "x"));
    for (let row = first; row < last; row += 1) {
      const place = middle(layer.x, layer.x2, row);
      const value = middle(layer.y, layer.y2, row);
      const inside = layer.mark === "bars" && isInside(plot, layer, row);
      const across = inside ? 0 : plot.valToPos(place, "x") - left;
      const along = inside ? 0 : plot.valToPos(value, "y") - top;
      const distance = Math.hypot(across, along) - (layer.rare ? 6 : 0);
      if (distance < REACH_PIXELS && (best === null || distance < best.distance)) best = { distance, layer, row, at: place, value };
    }
  }
  return best;
}

function middle(from: Layer["x"], to: Layer["x"], row: number): number {
  return to ? (at(from, row) + at(to, row)) / 2 : at(from, row);
}

function isInside(plot: uPlot, layer: Layer, row: number): boolean {
  const within = (value: number, a: number, b: number): boolean => value >= Math.min(a, b) && value <= Math.max(a, b);
  const x = plot.posToVal(plot.cursor.left ?? -1, "x");
  const y = plot.posToVal(plot.cursor.top ?? -1, "y");
  return within(x, at(layer.x, row), at(layer.x2, row)) && within(y, at(layer.y, row), at(layer.y2, row));
}

function upTo(axis: Axis, from: number, to: number): string {
  return `${number(from)} to ${inWords(axis, to)}`;
}

// The words at the cursor for a mark: its name, its value, its place.
export function wordsOf(panel: Panel, found: Nearest): string {
  const { layer } = found;
  const name = layer.name ? `${layer.name}: ` : "";
  return name + (layer.mark === "bars" ? wordsOfBar(panel, found) : wordsOfMark(panel, found));
}

function wordsOfBar(panel: Panel, { layer, row, at: place, value }: Nearest): string {
  const wide = upTo(panel.x, at(layer.x, row), at(layer.x2, row));
  if (panel.y.words.length > 0) {
    return `${panel.x.words.length > 0 ? inWords(panel.x, place) : wide}, ${inWords(panel.y, value)}`;
  }
  const isFromZero = at(layer.y2, row) === 0 || panel.y.scale === "log";
  const high = isFromZero ? inWords(panel.y, at(layer.y, row)) : upTo(panel.y, at(layer.y, row), at(layer.y2, row));
  return `${high} at ${panel.x.scale === "time" ? inWords(panel.x, place) : wide}`;
}

function wordsOfMark(panel: Panel, { layer, row, at: middleOfMark, value }: Nearest): string {
  const overTime = panel.zoom === "time" && panel.x.scale === "linear";
  const isSlant = layer.mark === "slants";
  let place = inWords(panel.x, isSlant ? at(layer.x, row) : middleOfMark, overTime);
  const length = at(layer.x2, row) - at(layer.x, row);
  if (isSlant && length > 0) {
    place += `, for ${overTime ? `${number(length * 1e3)} ms` : number(length) + unitOf(panel.x)}`;
  }
  if (panel.y.words.length > 0) return isSlant || panel.zoom === "time" || !layer.y ? `at ${place}` : place;
  const worth = layer.y2 && !isSlant ? upTo(panel.y, at(layer.y, row), at(layer.y2, row)) : inWords(panel.y, value);
  return `${worth} at ${place}`;
}
