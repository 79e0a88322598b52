// The menu "Save" of a figure: a picture, its numbers, and Python that draws it again.

import { showsAll, type Chart } from "./chart";
import { element } from "./element";
import { at, type Ends, type Figure, type Style } from "./figure";
import { drawKeyInto, KEY } from "./marks";
import { escapeXml, SvgContext } from "./svg";
import { colourOf, cssColour } from "./theme";

// What a server can write of a figure: an address by the kind of the file, for a window of time.
export type Pictures = (figure: string, kind: string, window: Ends | null) => string;

const MARGIN = 14;

export interface Saved {
  figure: Figure;
  charts: readonly Chart[];
  styles: readonly Style[];
  cell: string;
  pictures: Pictures | undefined;
}

export function saveMenu(saved: Saved): HTMLElement {
  const { figure, cell, pictures } = saved;
  const menu = element("details", { class: "save screen" }, element("summary", { "aria-label": `Save ${figure.title}` }, "Save"));
  const list = element("div", { class: "menu" });
  const add = (words: string, act: () => void | Promise<void>): void => {
    const button = element("button", { type: "button" }, words);
    button.addEventListener("click", () => {
      menu.open = false;
      void act();
    });
    list.append(button);
  };
  if (pictures) {
    const address = (kind: string): string => pictures(figure.key, kind, zoomOf(saved.charts));
    for (const kind of ["png", "svg", "pdf", "csv"]) add(kind.toUpperCase(), () => download(address(kind), ""));
  } else {
    const name = fileName(figure);
    add("PNG", async () => saveBlob(await pngOf(saved), `${name}.png`));
    add("SVG", () => saveBlob(new Blob([svgOf(saved)], { type: "image/svg+xml" }), `${name}.svg`));
    const isPart = figure.panels.some((panel) => panel.layers.some((layer) => layer.shown < layer.rows));
    add(isPart ? "CSV of the marks in this page" : "CSV", () => saveBlob(new Blob([csvOf(figure)], { type: "text/csv" }), `${name}.csv`));
  }
  if (cell) {
    add("Notebook cell (.py)", () => saveBlob(new Blob([cell], { type: "text/x-python" }), `${fileName(figure)}.py`));
    add("Copy notebook cell", () => navigator.clipboard?.writeText(cell));
  }
  menu.append(list);
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary")?.focus();
  });
  return menu;
}

// The window of time that the reader chose; none where everything is shown.
function zoomOf(charts: readonly Chart[]): Ends | null {
  const chart = charts.find((one) => one.panel.zoom === "time");
  return chart && !showsAll(chart) ? chart.window : null;
}

// The name of the page's file or, where it has none, its title; then what the figure is.
function fileName(figure: Figure): string {
  const file = /([^/]+)\.html?$/.exec(decodeURI(location.pathname))?.[1];
  const title = document.title.replace(/ – whydrop$/, "").slice(0, 60).replace(/ \S*$/, "");
  const words = [file ?? title, figure.key].filter((one) => one).join(" ");
  return words.normalize("NFKD").replace(/[^\w.-]+/g, "-").replace(/^[-.]+|[-.]+$/g, "") || "figure";
}

export function download(address: string, name: string): void {
  const link = element("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

export function saveBlob(content: Blob | null, name: string): void {
  if (!content) return;
  const address = URL.createObjectURL(content);
  download(address, name);
  // The browser reads it after the click.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// Rows of all marks, as whydrop writes them (show/figure_numbers.py): what is drawn twice is listed once.
export function csvOf(figure: Figure): string {
  const names = ["x", "y", "x2", "y2"] as const;
  const rows = [["figure", "panel", "mark", ...names, "text"].join(",")];
  figure.panels.forEach((panel, number) => {
    for (const layer of panel.layers) {
      if (layer.helper) continue;
      const length = Math.max(...names.map((name) => layer[name]?.length ?? 0), 0);
      for (let row = 0; row < length; row += 1) {
        const values = names.map((name) => {
          const value = at(layer[name], row);
          return Number.isNaN(value) ? "" : String(value);
        });
        rows.push([figure.key, panel.title || String(number + 1), layer.name, ...values, layer.text?.[row] ?? ""].map(cellOf).join(","));
      }
    }
  });
  return `${rows.join("\n")}\n`;
}

function cellOf(text: string): string {
  // A spreadsheet would run what begins like a formula; numbers may be negative.
  const harmless = /^[=+@\t\r]|^-(?![\d.])/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(harmless) ? `"${harmless.replace(/"/g, '""')}"` : harmless;
}

// --- pictures ---

interface Line {
  text: string;
  size: number;
  weight: number;
  soft: boolean;
}

type Part = { top: number } & ({ line: Line } | { names: readonly string[] } | { chart: Chart });

interface Sheet {
  width: number;
  height: number;
  parts: Part[];
}

// Everything that the page shows of a figure, from top to bottom.
function laidOut({ figure, charts }: Saved): Sheet {
  const width = Math.max(...charts.map((chart) => chart.size.width), 300) + 2 * MARGIN;
  const parts: Part[] = [];
  let top = MARGIN;
  const write = (text: string, size: number, weight = 400, soft = false): void => {
    for (const line of wrapped(text, width - 2 * MARGIN, size, weight)) {
      parts.push({ top: top + size, line: { text: line, size, weight, soft } });
      top += size * 1.4;
    }
  };
  const key = (names: readonly string[] | null): void => {
    if (!names || names.length === 0) return;
    const rows = keyRows(names, width - 2 * MARGIN);
    for (const row of rows) {
      parts.push({ top, names: row });
      top += 22;
    }
  };
  write(figure.title, 17, 650);
  if (figure.subtitle) write(figure.subtitle, 13, 400, true);
  key(figure.legend);
  for (const chart of charts) {
    if (chart.panel.title) write(chart.panel.title, 14, 600);
    if (!figure.legend) key(chart.panel.legend);
    parts.push({ top, chart });
    top += chart.size.height + 8;
  }
  const source = document.querySelector("header .source")?.textContent ?? "";
  for (const words of [figure.see, ...figure.notes, source]) if (words) write(words, 13, 400, true);
  return { width, height: Math.ceil(top + MARGIN), parts };
}

let measure: CanvasRenderingContext2D | null = null;

function widthOf(text: string, size: number, weight = 400): number {
  measure ??= document.createElement("canvas").getContext("2d");
  if (!measure) return text.length * size * 0.55;
  measure.font = `${weight} ${size}px system-ui, sans-serif`;
  return measure.measureText(text).width;
}

function wrapped(text: string, width: number, size: number, weight: number): string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(/[ \n]+/)) {
    const longer = line ? `${line} ${word}` : word;
    if (line && widthOf(longer, size, weight) > width) {
      lines.push(line);
      line = word;
    } else {
      line = longer;
    }
  }
  return line ? [...lines, line] : lines;
}

const keyWidth = (name: string): number => KEY.width + 6 + widthOf(name, 13) + 18;

function keyRows(names: readonly string[], width: number): string[][] {
  const rows: string[][] = [[]];
  let taken = 0;
  for (const name of names) {
    const own = keyWidth(name);
    if (taken > 0 && taken + own > width) {
      rows.push([]);
      taken = 0;
    }
    rows.at(-1)?.push(name);
    taken += own;
  }
  return rows;
}

type Paper = Pick<CanvasRenderingContext2D, "fillStyle" | "font" | "textAlign" | "textBaseline" | "fillText" | "fillRect">;

// What a canvas and SVG have in common; `place` puts a chart.
function paint(ctx: Paper, sheet: Sheet, saved: Saved, ratio: number, place: (chart: Chart, top: number) => void): void {
  ctx.fillStyle = cssColour("--paper");
  ctx.fillRect(0, 0, sheet.width * ratio, sheet.height * ratio);
  for (const part of sheet.parts) {
    ctx.textAlign = "left";
    ctx.textBaseline = "alphabetic";
    if ("chart" in part) {
      place(part.chart, part.top);
    } else if ("line" in part) {
      const { text, size, weight, soft } = part.line;
      ctx.fillStyle = cssColour(soft ? "--soft" : "--ink");
      ctx.font = `${weight} ${size * ratio}px system-ui, sans-serif`;
      ctx.fillText(text, MARGIN * ratio, part.top * ratio);
    } else {
      paintKeys(ctx, part.names, part.top, saved, ratio);
    }
  }
}

function paintKeys(ctx: Paper, names: readonly string[], top: number, saved: Saved, ratio: number): void {
  let left = MARGIN;
  for (const name of names) {
    const layers = saved.charts.flatMap((chart) => chart.panel.layers.filter((layer) => layer.name === name));
    const layer = layers.findLast((one) => !one.helper) ?? layers.at(-1);
    const style = layer && saved.styles[layer.style];
    if (layer && style) {
      drawKeyInto(ctx as CanvasRenderingContext2D, left * ratio, (top + 1) * ratio, ratio, layer, style, colourOf(style));
    }
    ctx.fillStyle = cssColour("--ink");
    ctx.font = `400 ${13 * ratio}px system-ui, sans-serif`;
    ctx.fillText(name, (left + KEY.width + 6) * ratio, (top + 13) * ratio);
    left += keyWidth(name);
  }
}

export async function pngOf(saved: Saved): Promise<Blob | null> {
  const sheet = laidOut(saved);
  const ratio = window.devicePixelRatio || 1;
  const canvas = element("canvas", { width: Math.ceil(sheet.width * ratio), height: Math.ceil(sheet.height * ratio) });
  const ctx = canvas.getContext("2d");
  if (!ctx) return null;
  paint(ctx, sheet, saved, ratio, (chart, top) => ctx.drawImage(chart.canvas, MARGIN * ratio, top * ratio));
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

export function svgOf(saved: Saved): string {
  const sheet = laidOut(saved);
  const svg = new SvgContext("figure");
  // It knows all of a canvas that is used here.
  paint(svg as unknown as Paper, sheet, saved, 1, (chart, top) => chart.writeInto(svg, MARGIN, top));
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${sheet.width}" height="${sheet.height}" viewBox="0 0 ${sheet.width} ${sheet.height}"`
    + ' font-family="system-ui, sans-serif" role="img">',
    `<title>${escapeXml(saved.figure.title)}</title>`,
    svg.body,
    "</svg>\n",
  ].join("\n");
}
