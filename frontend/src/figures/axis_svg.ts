// The axes of a chart as SVG, with the numbers that uPlot chose for the canvas.

import type uPlot from "uplot";
import type { Scale } from "./marks";
import type { SvgContext } from "./svg";
import { cssColour } from "./theme";

// uPlot keeps them between two drawings.
type Drawn = uPlot.Axis & { _splits?: number[] | null; _values?: (string | number | null)[] | null };

export function writeAxes(svg: SvgContext, plot: uPlot, scale: Scale, left: number): void {
  const [across, along] = plot.axes as [Drawn, Drawn];
  svg.setLineDash([]);
  svg.lineWidth = 1;
  svg.globalAlpha = 1;
  svg.font = "12px system-ui, sans-serif";
  svg.fillStyle = cssColour("--ink");
  eachTick(across, (value, words) => {
    const x = scale.x(value);
    grid(svg, across, x, scale.top, x, scale.foot + 5);
    svg.textAlign = "center";
    words.split("\n").forEach((line, number) => svg.fillText(line, x, scale.foot + 20 + number * 15));
  });
  eachTick(along, (value, words) => {
    const y = scale.y(value);
    grid(svg, along, scale.left - 5, y, scale.right, y);
    svg.textAlign = "right";
    svg.fillText(words, scale.left - 9, y + 4);
  });
  svg.font = "13px system-ui, sans-serif";
  svg.textAlign = "center";
  svg.fillText(String(across.label ?? ""), (scale.left + scale.right) / 2, scale.foot + 56);
  svg.upright(String(along.label ?? ""), left + 14, (scale.top + scale.foot) / 2);
  svg.textAlign = "start";
}

function eachTick(axis: Drawn, draw: (value: number, words: string) => void): void {
  axis._splits?.forEach((value, number) => draw(value, String(axis._values?.[number] ?? "")));
}

function grid(svg: SvgContext, axis: Drawn, x: number, y: number, x2: number, y2: number): void {
  if (axis.grid?.show === false) return;
  svg.strokeStyle = cssColour("--grid");
  svg.beginPath();
  svg.moveTo(x, y);
  svg.lineTo(x2, y2);
  svg.stroke();
}
