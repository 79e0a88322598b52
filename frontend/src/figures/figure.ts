// Figures as the server packs them (show/embedding.py), and as the page draws them.

export type Mark =
  | "points" | "line" | "outline" | "step" | "spans" | "slants" | "bars" | "band" | "rule" | "text";
export type Ends = [number, number];
export type Column = Float64Array | Float32Array | number[];

// A column as base64, or at a place of the bytes that came with the document.
export type Packed = { kind: "f8" | "f4" | "us" } & ({ data: string } | { at: number; length: number });

export interface Style {
  light: string;
  dark: string;
  shape: string;
  size: number;
  width: number;
  dash: number[];
  opacity: number;
  hollow: boolean;
}

interface LayerWords {
  name: string;
  style: number;
  mark: Mark;
  rare: boolean;
  helper: boolean;
  counted: boolean;
  stretch: boolean;
  rows: number;
  shown: number;
  text?: string[];
}

export type ColumnName = "x" | "x2" | "y" | "y2";

export type PackedLayer = LayerWords & Partial<Record<ColumnName, Packed>>;

export interface Layer extends LayerWords {
  x?: Column;
  x2?: Column;
  y?: Column;
  y2?: Column;
  visible: boolean;
  // The longest slant: one that begins before a window may end within it.
  reach: number;
}

export interface Axis {
  title: string;
  scale: "linear" | "log" | "time";
  ends: Ends;
  fixed: boolean;
  fromZero: "never" | "whole" | "always";
  words: [number, string][];
  zeros: Ends | null;
}

interface PanelOf<L> {
  title: string;
  zoom: string;
  x: Axis;
  y: Axis;
  legendTitle: string;
  legend: string[];
  height: number;
  layers: L[];
}

export type Panel = PanelOf<Layer>;

interface FigureOf<L> {
  key: string;
  title: string;
  subtitle: string;
  see: string;
  notes: string[];
  columns: number;
  legend: string[] | null;
  panels: PanelOf<L>[];
}

export type Figure = FigureOf<Layer>;

interface ChoiceOf<L> {
  name: string;
  focus: Ends | null;
  // The moment that time 0 is, in seconds since the Unix epoch, where it is known.
  origin?: number | null;
  // Python that draws a figure again, by its key.
  cells?: Record<string, string>;
  figures: FigureOf<L>[];
}

export type PackedChoice = ChoiceOf<PackedLayer>;
export type Choice = ChoiceOf<Layer>;

export interface Data {
  styles: Style[];
  parts: Record<string, PackedChoice[]>;
}

const COLUMNS: readonly ColumnName[] = ["x", "x2", "y", "y2"];

const NO_BYTES = new ArrayBuffer(0);

export function decodeColumn(packed: Packed, bytes: ArrayBuffer = NO_BYTES): Column {
  const [buffer, at, length] = "data" in packed ? [ofText(packed.data), 0, undefined] : [bytes, packed.at, packed.length];
  if (packed.kind === "f8") return new Float64Array(buffer, at, length && length / 8);
  if (packed.kind === "f4") return new Float32Array(buffer, at, length && length / 4);
  return Float64Array.from(new Int32Array(buffer, at, length && length / 4), (microseconds) => microseconds / 1e6);
}

function ofText(base64: string): ArrayBuffer {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0)).buffer;
}

// What show/embedding.py's `binary` makes: the document, and the bytes of its columns.
export function unpacked(content: ArrayBuffer): { data: Data; bytes: ArrayBuffer } {
  const length = new DataView(content).getUint32(0, true);
  const head = new TextDecoder().decode(new Uint8Array(content, 4, length));
  return { data: JSON.parse(head) as Data, bytes: content.slice(4 + length) };
}

function decodeLayer(packed: PackedLayer, bytes: ArrayBuffer): Layer {
  const { x: _x, x2: _x2, y: _y, y2: _y2, ...words } = packed;
  const layer: Layer = { ...words, visible: true, reach: 0 };
  for (const name of COLUMNS) {
    const column = packed[name];
    if (column) layer[name] = decodeColumn(column, bytes);
  }
  const { x, x2 } = layer;
  if (x && x2) {
    for (let row = 0; row < x.length; row += 1) layer.reach = Math.max(layer.reach, Math.abs(at(x2, row) - at(x, row)));
  }
  return layer;
}

export function decode(choice: PackedChoice, bytes: ArrayBuffer = NO_BYTES): Choice {
  const figures = choice.figures.map((figure) => ({
    ...figure,
    panels: figure.panels.map((panel) => ({ ...panel, layers: panel.layers.map((layer) => decodeLayer(layer, bytes)) })),
  }));
  return { ...choice, figures };
}

// A value of a column; NaN behind its end, as where a line breaks.
export function at(column: Column | undefined, row: number): number {
  return column?.[row] ?? NaN;
}

// The first index with a value not below `value`; columns over time are sorted.
export function lowerBound(sorted: Column, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at(sorted, middle) < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The rows of a layer that a window of x shows, with one more at each side so that lines reach the edges.
export function rowsWithin(layer: Layer, low: number, high: number): Ends {
  const along = layer.x ?? layer.y ?? [];
  if (layer.mark === "outline" || layer.mark === "rule" || !layer.x) return [0, along.length];
  const first = Math.max(0, lowerBound(layer.x, low - layer.reach) - 1);
  return [first, Math.min(layer.x.length, lowerBound(layer.x, high + layer.reach) + 1)];
}

// The range of y that the visible layers span in a window of x; layers that do not stretch the chart are clipped.
export function rangeOfY(panel: Panel, low: number, high: number): Ends {
  const { ends, fixed, fromZero, scale, words } = panel.y;
  const whole = low <= panel.x.ends[0] && high >= panel.x.ends[1];
  if (fixed && (whole || panel.zoom !== "time" || scale === "log" || words.length > 0)) return ends;
  let [least, greatest] = spanned(panel, low, high);
  if (!Number.isFinite(least) || !Number.isFinite(greatest)) return fixed ? ends : [0, 1];
  // A zoomed interval of a sequence that only grows lies far from zero.
  if (fromZero === "always" || (fromZero === "whole" && low <= panel.x.ends[0])) least = Math.min(least, 0);
  if (fixed && ends[0] === 0) least = 0;
  const span = greatest - least || Math.abs(greatest) || 1;
  const found: Ends = [least === 0 ? 0 : least - span * 0.04, greatest + span * 0.05];
  // What was left out of an axis on purpose stays out.
  return fixed && ends[0] < found[1] && found[0] < ends[1]
    ? [Math.max(found[0], ends[0]), Math.min(found[1], ends[1])]
    : found;
}

function spanned(panel: Panel, low: number, high: number): Ends {
  let least = Infinity;
  let greatest = -Infinity;
  for (const layer of panel.layers) {
    // Where ends are fixed, rare events may stand at an edge, and stay there.
    if (!layer.visible || !layer.stretch || !layer.y || (panel.y.fixed && layer.rare)) continue;
    const [first, last] = rowsWithin(layer, low, high);
    for (let row = first; row < last; row += 1) {
      // The rows just outside are there to lead lines to the edges.
      if (layer.mark !== "rule" && (at(layer.x, row) > high || at(layer.x2 ?? layer.x, row) < low)) continue;
      for (const value of layer.y2 ? [at(layer.y, row), at(layer.y2, row)] : [at(layer.y, row)]) {
        if (value < least) least = value;
        if (value > greatest) greatest = value;
      }
    }
  }
  return [least, greatest];
}
