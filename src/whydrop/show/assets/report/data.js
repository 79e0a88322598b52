// Chart data as Python packed it: columns as base64, decoded once when a connection is first shown.
"use strict";

const whydrop = {};

whydrop.decodeColumn = (packed) => {
  const bytes = Uint8Array.from(atob(packed.data), (char) => char.charCodeAt(0));
  if (packed.kind === "f8") return new Float64Array(bytes.buffer);
  if (packed.kind === "f4") return new Float32Array(bytes.buffer);
  return Float64Array.from(new Int32Array(bytes.buffer), (microseconds) => microseconds / 1e6);
};

whydrop.decode = (flow) => {
  if (flow.decoded) return flow;
  for (const figure of flow.figures) {
    for (const layer of figure.layers) {
      for (const column of ["x", "x2", "y", "y2"]) {
        if (layer[column]) layer[column] = whydrop.decodeColumn(layer[column]);
      }
      layer.visible = true;
      // A slant that begins before a window may end within it.
      if (layer.mark === "slants") layer.reach = layer.x.reduce((most, x, row) => Math.max(most, layer.x2[row] - x), 0);
    }
  }
  flow.decoded = true;
  return flow;
};

// The first index whose value is not below `value`; columns over time are sorted.
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
  if (!layer.x) return [0, layer.y.length];
  const first = Math.max(0, whydrop.lowerBound(layer.x, low - (layer.reach ?? 0)) - 1);
  const last = Math.min(layer.x.length, whydrop.lowerBound(layer.x, high) + 1);
  return [first, last];
};

// The range of y that the visible layers span in a window of x; layers that do not stretch the chart are clipped.
whydrop.rangeOfY = (figure, low, high) => {
  if (figure.ySpan) return figure.ySpan;
  let least = Infinity;
  let greatest = -Infinity;
  for (const layer of figure.layers) {
    if (!layer.visible || !layer.stretch) continue;
    const [first, last] = whydrop.rowsWithin(layer, low, high);
    for (let row = first; row < last; row += 1) {
      // The rows just outside are there to lead lines to the edges.
      if (layer.mark !== "rule" && (layer.x[row] > high || (layer.x2 ?? layer.x)[row] < low)) continue;
      const top = layer.y2 ? layer.y2[row] : layer.y[row];
      if (layer.y[row] < least) least = layer.y[row];
      if (top > greatest) greatest = top;
    }
  }
  if (!Number.isFinite(least) || !Number.isFinite(greatest)) return [0, 1];
  // A zoomed stretch of a sequence that only grows lies far from zero.
  if (figure.fromZero && (figure.key !== "time-sequence" || low <= figure.xRange[0])) least = Math.min(least, 0);
  const span = greatest - least || Math.abs(greatest) || 1;
  return [least === 0 ? 0 : least - span * 0.04, greatest + span * 0.05];
};
