// Figures as Python packed them: columns as base64, decoded once when they are first shown.
"use strict";

const whydrop = {};

whydrop.decodeColumn = (packed) => {
  const bytes = Uint8Array.from(atob(packed.data), (char) => char.charCodeAt(0));
  if (packed.kind === "f8") return new Float64Array(bytes.buffer);
  if (packed.kind === "f4") return new Float32Array(bytes.buffer);
  return Float64Array.from(new Int32Array(bytes.buffer), (microseconds) => microseconds / 1e6);
};

whydrop.decode = (choice) => {
  if (choice.decoded) return choice;
  for (const panel of choice.figures.flatMap((figure) => figure.panels)) {
    for (const layer of panel.layers) {
      for (const column of ["x", "x2", "y", "y2"]) {
        if (layer[column]) layer[column] = whydrop.decodeColumn(layer[column]);
      }
      layer.visible = true;
      // A slant that begins before a window may end within it.
      if (layer.x2) layer.reach = layer.x.reduce((most, x, row) => Math.max(most, Math.abs(layer.x2[row] - x)), 0);
    }
  }
  choice.decoded = true;
  return choice;
};

// The first index with a value not below `value`; columns over time are sorted.
whydrop.lowerBound = (sorted, value) => {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
};

// The rows of a layer that a window of x shows, with one more at each side so that lines reach the edges.
whydrop.rowsWithin = (layer, low, high) => {
  if (layer.mark === "outline" || layer.mark === "rule") return [0, (layer.x ?? layer.y).length];
  const reach = layer.reach ?? 0;
  const first = Math.max(0, whydrop.lowerBound(layer.x, low - reach) - 1);
  const last = Math.min(layer.x.length, whydrop.lowerBound(layer.x, high + reach) + 1);
  return [first, last];
};

// The range of y that the visible layers span in a window of x; layers that do not stretch the chart are clipped.
whydrop.rangeOfY = (panel, low, high) => {
  const { ends, fixed, fromZero, scale, words } = panel.y;
  const whole = low <= panel.x.ends[0] && high >= panel.x.ends[1];
  if (fixed && (whole || panel.zoom !== "time" || scale === "log" || words.length > 0)) return ends;
  let least = Infinity;
  let greatest = -Infinity;
  for (const layer of panel.layers) {
    // Where ends are fixed, rare events may stand at an edge, and stay there.
    if (!layer.visible || !layer.stretch || !layer.y || (fixed && layer.rare)) continue;
    const [first, last] = whydrop.rowsWithin(layer, low, high);
    for (let row = first; row < last; row += 1) {
      // The rows just outside are there to lead lines to the edges.
      if (layer.mark !== "rule" && (layer.x[row] > high || (layer.x2 ?? layer.x)[row] < low)) continue;
      for (const value of layer.y2 ? [layer.y[row], layer.y2[row]] : [layer.y[row]]) {
        if (value < least) least = value;
        if (value > greatest) greatest = value;
      }
    }
  }
  if (!Number.isFinite(least) || !Number.isFinite(greatest)) return fixed ? ends : [0, 1];
  // A zoomed interval of a sequence that only grows lies far from zero.
  if (fromZero === "always" || (fromZero === "whole" && low <= panel.x.ends[0])) least = Math.min(least, 0);
  if (fixed && ends[0] === 0) least = 0;
  const span = greatest - least || Math.abs(greatest) || 1;
  const found = [least === 0 ? 0 : least - span * 0.04, greatest + span * 0.05];
  // What was left out of an axis on purpose stays out.
  return fixed && ends[0] < found[1] && found[0] < ends[1] ? [Math.max(found[0], ends[0]), Math.min(found[1], ends[1])] : found;
};
