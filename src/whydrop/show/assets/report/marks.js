// Drawing the marks of a layer on a chart's canvas, and the little pictures of the legend.
"use strict";

whydrop.shapes = {
  dot: (ctx, x, y, r) => ctx.arc(x, y, r, 0, 2 * Math.PI),
  ring: (ctx, x, y, r) => ctx.arc(x, y, r, 0, 2 * Math.PI),
  square: (ctx, x, y, r) => ctx.rect(x - r, y - r, 2 * r, 2 * r),
  cross: (ctx, x, y, r) => {
    ctx.moveTo(x - r, y - r);
    ctx.lineTo(x + r, y + r);
    ctx.moveTo(x + r, y - r);
    ctx.lineTo(x - r, y + r);
  },
  "triangle-up": (ctx, x, y, r) => whydrop.polygon(ctx, [[x, y - r], [x + r, y + r], [x - r, y + r]]),
  "triangle-down": (ctx, x, y, r) => whydrop.polygon(ctx, [[x, y + r], [x + r, y - r], [x - r, y - r]]),
  plus: (ctx, x, y, r) => {
    const a = r / 3;
    const corner = [[a, a], [r, a], [r, -a], [a, -a], [a, -r], [-a, -r], [-a, -a], [-r, -a], [-r, a], [-a, a], [-a, r], [a, r]];
    whydrop.polygon(ctx, corner.map(([across, along]) => [x + across, y + along]));
  },
  diamond: (ctx, x, y, r) => whydrop.polygon(ctx, [[x, y - r], [x + r, y], [x, y + r], [x - r, y]]),
};

whydrop.polygon = (ctx, corners) => {
  ctx.moveTo(...corners[0]);
  for (const corner of corners.slice(1)) ctx.lineTo(...corner);
  ctx.closePath();
};

// `scale` maps values to canvas pixels: {x(value), y(value), left, right, low, high, ratio}.
whydrop.drawLayer = (ctx, layer, style, colour, scale) => {
  const [first, last] = whydrop.rowsWithin(layer, scale.low, scale.high);
  ctx.save();
  ctx.globalAlpha = style.opacity;
  ctx.strokeStyle = colour;
  ctx.fillStyle = colour;
  ctx.lineWidth = style.width * scale.ratio;
  ctx.setLineDash(style.dash.map((length) => length * scale.ratio));
  whydrop.draws[layer.mark](ctx, layer, first, last, scale, style);
  ctx.restore();
};

whydrop.draws = {
  line: (ctx, layer, first, last, scale) => {
    ctx.lineJoin = "round";
    ctx.beginPath();
    let joined = false;
    for (let row = first; row < last; row += 1) {
      const known = !Number.isNaN(layer.y[row]);
      if (known && joined) ctx.lineTo(scale.x(layer.x[row]), scale.y(layer.y[row]));
      else if (known) ctx.moveTo(scale.x(layer.x[row]), scale.y(layer.y[row]));
      joined = known;
    }
    ctx.stroke();
  },
  outline: (...given) => whydrop.draws.line(...given),
  band: (ctx, layer, first, last, scale) => {
    ctx.beginPath();
    for (let row = first; row < last; row += 1) ctx.lineTo(scale.x(layer.x[row]), scale.y(layer.y[row]));
    for (let row = last - 1; row >= first; row -= 1) ctx.lineTo(scale.x(layer.x[row]), scale.y(layer.y2[row]));
    ctx.fill();
  },
  step: (ctx, layer, first, last, scale) => {
    ctx.beginPath();
    for (let row = first; row < last; row += 1) {
      const x = scale.x(layer.x[row]);
      if (row > first) ctx.lineTo(x, scale.y(layer.y[row - 1]));
      ctx.lineTo(x, scale.y(layer.y[row]));
    }
    ctx.stroke();
  },
  spans: (ctx, layer, first, last, scale) => {
    // A packet stays visible where its length is less than a pixel.
    const least = 1.5 * scale.ratio;
    ctx.beginPath();
    for (let row = first; row < last; row += 1) {
      const x = scale.x(layer.x[row]);
      const bottom = scale.y(layer.y[row]);
      ctx.moveTo(x, bottom);
      ctx.lineTo(x, Math.min(scale.y(layer.y2[row]), bottom - least));
    }
    ctx.stroke();
  },
  slants: (ctx, layer, first, last, scale) => {
    ctx.beginPath();
    for (let row = first; row < last; row += 1) {
      ctx.moveTo(scale.x(layer.x[row]), scale.y(layer.y[row]));
      ctx.lineTo(scale.x(layer.x2[row]), scale.y(layer.y2[row]));
    }
    ctx.stroke();
  },
  bars: (ctx, layer, first, last, scale) => {
    for (let row = first; row < last; row += 1) {
      const [left, right] = [scale.x(layer.x[row]), scale.x(layer.x2[row])].sort((a, b) => a - b);
      const [top, bottom] = [scale.y(layer.y[row]), scale.y(layer.y2[row])].sort((a, b) => a - b);
      const gap = right - left > 4 * scale.ratio ? scale.ratio / 2 : 0;
      ctx.fillRect(left + gap, top, Math.max(right - left - 2 * gap, scale.ratio), bottom - top);
    }
  },
  rule: (ctx, layer, first, last, scale) => {
    const y = layer.y && scale.y(layer.y[0]);
    const x = !layer.y && scale.x(layer.x[0]);
    ctx.beginPath();
    ctx.moveTo(layer.y ? scale.left : x, layer.y ? y : scale.top);
    ctx.lineTo(layer.y ? scale.right : x, layer.y ? y : scale.foot);
    ctx.stroke();
  },
  text: (ctx, layer, first, last, scale) => {
    ctx.font = `${12 * scale.ratio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    ctx.textBaseline = "middle";
    for (let row = first; row < last; row += 1) ctx.fillText(layer.text[row], scale.x(layer.x[row]), scale.y(layer.y[row]));
  },
  points: (ctx, layer, first, last, scale, style) => {
    // A thousand crosses at full size would hide all else: where many are in view they are smaller, down to half.
    const crowding = layer.rare ? Math.max(0.5, Math.min(1, Math.sqrt(300 / Math.max(1, last - first)))) : 1;
    const radius = (style.size / 2) * crowding * scale.ratio;
    ctx.lineWidth *= crowding;
    const shape = whydrop.shapes[style.shape];
    ctx.beginPath();
    for (let row = first; row < last; row += 1) {
      const x = scale.x(layer.x[row]);
      // A rare event that a zoom would hide above or below stands at the edge.
      const y = layer.rare ? Math.min(Math.max(scale.y(layer.y[row]), scale.top), scale.foot) : scale.y(layer.y[row]);
      if (style.shape === "dot" || style.shape === "ring") ctx.moveTo(x + radius, y);
      shape(ctx, x, y, radius);
    }
    if (style.hollow) ctx.stroke();
    else ctx.fill();
  },
};

// The picture of a layer in the legend, on a canvas of its own.
whydrop.drawKey = (canvas, layer, style, colour) => {
  const ratio = window.devicePixelRatio || 1;
  const [width, height] = [26, 14];
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const ctx = canvas.getContext("2d");
  const scale = { x: (value) => value * ratio, y: (value) => value * ratio, ratio, low: -1, high: width + 1, top: 0, foot: height * ratio };
  const middle = height / 2;
  const key = { ...layer, x: [width / 2], y: [middle], x2: undefined, y2: undefined, reach: 0 };
  if (["line", "outline", "step", "rule", "slants"].includes(layer.mark)) {
    key.mark = "line";
    key.x = [1, width - 1];
    key.y = [middle, middle];
  } else if (layer.mark === "spans") {
    key.x = [7, 13, 19];
    key.y = [12, 10, 8];
    key.y2 = [6, 4, 2];
  } else if (layer.mark === "bars" || layer.mark === "band") {
    key.mark = "bars";
    [key.x, key.x2, key.y, key.y2] = [[8], [18], [2], [12]];
  }
  whydrop.drawLayer(ctx, key, style, colour, scale);
};
