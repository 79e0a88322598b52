// The axes of a chart: titles, and numbers, times or words along them.

import type uPlot from "uplot";
import type { Axis, Panel } from "./figure";
import { powers, short, times } from "./numbers";
import { cssColour } from "./theme";

const FONT = "system-ui, sans-serif";
const LETTER_PIXELS = 7;

// From values to places along an axis, and back: windows move along these.
export function warpOf(axis: Axis): [(value: number) => number, (value: number) => number] {
  return axis.scale === "log" ? [Math.log, Math.exp] : [(value) => value, (value) => value];
}

// What lies on an axis of words needs its height; other panels are lower where they are narrow.
export function heightOf(panel: Panel, width: number): number {
  const height = panel.height * 0.75 + 90;
  return Math.round(panel.y.words.length > 0 ? height : Math.max(170, Math.min(height, width * 0.72)));
}

// The title of an axis without what explains it further, for narrow screens; the unit stays.
function shortTitle(title: string): string {
  return title.replace(/;[^)]*\)/, ")").replace(/\),.*$/, ")");
}

function cut(words: string, letters: number): string {
  return words.length > letters ? `${words.slice(0, Math.floor(letters) - 1)}…` : words;
}

export function axisOf(axis: Axis, place: HTMLElement, upright: boolean, height: number): uPlot.Axis {
  const width = place.clientWidth;
  const room = width * (upright ? 0.35 : 1 / Math.max(1, axis.words.length));
  const letters = Math.max(6, Math.floor(room / LETTER_PIXELS));
  const longest = Math.max(0, ...axis.words.map(([, words]) => Math.min(words.length, letters)));
  const title = width < 600 ? shortTitle(axis.title) : axis.title;
  return {
    label: cut(title, upright ? (height - 70) / 6.6 : Infinity),
    labelSize: axis.title ? 22 : 4,
    labelFont: `13px ${FONT}`,
    font: `12px ${FONT}`,
    size: upright ? (longest > 0 ? longest * LETTER_PIXELS + 16 : 62) : 40,
    side: upright ? 3 : 2,
    stroke: () => cssColour("--ink"),
    grid: { show: axis.words.length === 0, stroke: () => cssColour("--grid"), width: 1 },
    ticks: { stroke: () => cssColour("--grid"), width: 1, size: 5 },
    ...ticks(axis, letters),
  };
}

type Ticks = Pick<uPlot.Axis, "splits" | "values" | "filter" | "space">;

// Words at places of an axis instead of numbers, powers of ten where it is logarithmic, 0 where zeros stand.
function ticks(axis: Axis, letters: number): Ticks {
  if (axis.words.length > 0) {
    const words = axis.words.map(([, word]) => cut(word, letters));
    return { splits: () => axis.words.map(([at]) => at), values: () => words };
  }
  if (axis.scale === "log") return logTicks(axis);
  if (axis.scale === "time") return { values: (_, places) => times(places), space: 70 };
  return { values: (_, places) => places.map(short) };
}

function logTicks(axis: Axis): Ticks {
  const zeros = axis.zeros ? [axis.zeros[0]] : [];
  return {
    splits: (plot, _axis, least, greatest) => {
      const found = powers(Math.max(least, axis.zeros?.[1] ?? 0), greatest);
      // The number beside that of the zeros only where both can be read.
      const pixels = Math.min(plot.bbox.width, plot.bbox.height) / devicePixelRatio / Math.log(greatest / least);
      return [...zeros, ...found.filter((value) => zeros.every((zero) => Math.log(value / zero) * pixels > 14))];
    },
    // uPlot would leave out the words of all but powers of ten.
    filter: (_, places) => places,
    values: (_, places) => places.map((value) => (zeros.includes(value) ? "0" : short(value))),
  };
}
