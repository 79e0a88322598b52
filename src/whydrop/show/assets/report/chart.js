// One chart: uPlot gives axes, zoom and cursor; the layers are drawn into it, each with its own x.
"use strict";

whydrop.isDark = () => {
  if (whydrop.printing) return false;
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
};

whydrop.colourOf = (style) => (whydrop.isDark() ? style.dark : style.light);

whydrop.cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Makes the chart in `place`. `onZoom(low, high)` is told of every new window of x.
whydrop.makeChart = (place, figure, styles, onZoom) => {
  const size = () => ({ width: place.clientWidth, height: place.clientWidth < 600 ? 260 : 340 });
  const [least, greatest] = figure.xRange;
  const margin = (greatest - least) * 0.01;
  const all = figure.xLog ? [least / 1.05, greatest * 1.05] : [least - (figure.overTime ? margin : 0), greatest + margin];
  const state = { window: all };
  const options = {
    ...size(),
    // Spans of an axis are numbers here; "time" would make dates of them.
    scales: {
      x: { time: false, distr: figure.xLog ? 3 : 1, range: () => state.window },
      y: { distr: figure.yLog ? 3 : 1, range: () => whydrop.rangeOfY(figure, ...state.window) },
    },
    series: [{}, { show: true, paths: () => null, points: { show: false } }],
    axes: [whydrop.axis(place.clientWidth < 600 ? whydrop.shortTitle(figure.xTitle) : figure.xTitle, 44), { ...whydrop.axis(figure.yTitle, 66), ...whydrop.yTicks(figure), side: 3 }],
    legend: { show: false },
    padding: [10, 14, 0, 4],
    cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
    hooks: {
      draw: [(plot) => whydrop.drawFigure(plot, figure, styles)],
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return;
          const low = plot.posToVal(plot.select.left, "x");
          const high = plot.posToVal(plot.select.left + plot.select.width, "x");
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          onZoom(chart, low, high);
        },
      ],
      setCursor: [(plot) => whydrop.showNearest(plot, figure, styles, tip)],
    },
  };
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  const plot = new uPlot(options, [all, [0, 1]], place);
  plot.over.append(tip);
  plot.over.addEventListener("dblclick", () => onZoom(chart, ...all));
  plot.over.addEventListener("mouseleave", () => {
    tip.hidden = true;
  });
  whydrop.panByTouch(plot, (low, high) => onZoom(chart, low, high));
  const observer = new ResizeObserver(() => plot.setSize(size()));
  observer.observe(place);
  const chart = {
    figure,
    all,
    get window() {
      return state.window;
    },
    setWindow: (low, high) => {
      // No closer than a microsecond or a millionth of the whole: beyond that numbers lose their digits.
      const closest = Math.max(1e-6, (all[1] - all[0]) * 1e-6);
      const span = Math.min(Math.max(high - low, closest), all[1] - all[0]);
      const start = Math.min(Math.max((low + high - span) / 2, all[0]), all[1] - span);
      state.window = [start, start + span];
      plot.setData([state.window, [0, 1]], true);
    },
    redraw: () => plot.redraw(true, true),
    destroy: () => {
      observer.disconnect();
      plot.destroy();
    },
  };
  return chart;
};

// A finger that moves sideways moves the window of a zoomed chart; up and down it scrolls the page.
whydrop.panByTouch = (plot, onMove) => {
  let from = null;
  plot.over.style.touchAction = "pan-y";
  plot.over.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "touch") return;
    const { min, max } = plot.scales.x;
    from = { at: event.clientX, low: min, high: max };
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
};

// The title of an axis without what explains it further, for narrow screens; the unit stays.
whydrop.shortTitle = (title) => title.replace(/;[^)]*\)/, ")").replace(/\),.*$/, ")");

whydrop.axis = (label, size) => ({
  label,
  labelSize: 22,
  labelFont: "13px system-ui, sans-serif",
  font: "12px system-ui, sans-serif",
  size,
  stroke: () => whydrop.cssColour("--ink"),
  grid: { stroke: () => whydrop.cssColour("--grid"), width: 1 },
  ticks: { stroke: () => whydrop.cssColour("--grid"), width: 1, size: 5 },
});

// Words at places of the y axis instead of numbers, and powers of ten where it is logarithmic.
whydrop.yTicks = (figure) => {
  if (figure.yLabels.length > 0) {
    return { splits: () => figure.yLabels.map(([place]) => place), values: () => figure.yLabels.map(([, words]) => words), labelSize: 4 };
  }
  if (!figure.yLog) return {};
  const powers = () => Array.from({ length: 12 }, (_, power) => 10 ** power).filter((value) => value >= figure.ySpan[0] && value <= figure.ySpan[1]);
  return { splits: powers, values: (_, splits) => splits.map((value) => value.toLocaleString("en")) };
};

// The mapping from values to canvas pixels, without a call into uPlot for each point.
whydrop.scaleOf = (plot) => {
  const { left, top, width, height } = plot.bbox;
  const { min: low, max: high } = plot.scales.x;
  const { min: bottom, max: up } = plot.scales.y;
  // Where a value lies between two ends, as a share.
  const share = (from, to, log) => (log ? (value) => Math.log(value / from) / Math.log(to / from) : (value) => (value - from) / (to - from));
  const [across, along] = [share(low, high, plot.scales.x.distr === 3), share(bottom, up, plot.scales.y.distr === 3)];
  return {
    x: (value) => left + across(value) * width,
    y: (value) => top + (1 - along(value)) * height,
    bottom,
    left,
    right: left + width,
    low,
    high,
    ratio: window.devicePixelRatio || 1,
  };
};

whydrop.drawFigure = (plot, figure, styles) => {
  const { ctx, bbox } = plot;
  const scale = whydrop.scaleOf(plot);
  // Marks on the base line are seen whole, so the clip is a little wider than the axes.
  const slack = 6 * scale.ratio;
  for (const layer of figure.layers) {
    if (!layer.visible) continue;
    ctx.save();
    ctx.beginPath();
    const room = layer.rare ? slack : 0;
    ctx.rect(bbox.left - room, bbox.top - room, bbox.width + 2 * room, bbox.height + 2 * room);
    ctx.clip();
    const style = styles[layer.style];
    whydrop.drawLayer(ctx, layer, style, whydrop.colourOf(style), scale);
    ctx.restore();
  }
};

// The mark nearest to the cursor, within reach; rare ones win over lines that are as near.
whydrop.nearest = (plot, figure) => {
  const { left: cursorX, top: cursorY } = plot.cursor;
  if (cursorX === undefined || cursorX < 0) return null;
  const reach = 24;
  let best = null;
  for (const layer of figure.layers) {
    if (!layer.visible || !layer.x) continue;
    const [first, last] = whydrop.rowsWithin(layer, plot.posToVal(cursorX - reach, "x"), plot.posToVal(cursorX + reach, "x"));
    for (let row = first; row < last; row += 1) {
      const value = layer.y2 ? (layer.y[row] + layer.y2[row]) / 2 : layer.y[row];
      const at = layer.x2 ? (layer.x[row] + layer.x2[row]) / 2 : layer.x[row];
      const across = plot.valToPos(at, "x") - cursorX;
      const along = layer.mark === "bars" ? 0 : plot.valToPos(value, "y") - cursorY;
      const distance = Math.hypot(across, along) - (layer.rare ? 6 : 0);
      if (distance < reach && (best === null || distance < best.distance)) best = { distance, layer, row, at, value };
    }
  }
  return best;
};

// What the cursor is told of a mark: its name, its value, its place.
whydrop.wordsOf = (figure, { layer, row, at, value }) => {
  const number = (one) => Number(one.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 6 });
  const unitOf = (title) => {
    const found = /\(([^);]+)[);]/.exec(title);
    return found ? ` ${found[1].split(" since")[0]}` : "";
  };
  const slant = layer.mark === "slants";
  let place = figure.overTime ? `${(slant ? layer.x[row] : at).toFixed(6)} s` : number(slant ? layer.x[row] : at) + unitOf(figure.xTitle);
  if (layer.mark === "bars") place = `${number(layer.x[row])} to ${number(layer.x2[row])}`;
  if (slant && layer.x2[row] > layer.x[row]) {
    place += `, for ${figure.overTime ? `${number((layer.x2[row] - layer.x[row]) * 1e3)} ms` : number(layer.x2[row] - layer.x[row]) + unitOf(figure.xTitle)}`;
  }
  if (figure.yLabels.length > 0) return `${layer.name}: at ${place}`;
  const worth = layer.y2 && !slant ? `${number(layer.y[row])} to ${number(layer.y2[row])}` : number(value);
  return `${layer.name}: ${worth}${unitOf(figure.yTitle)} at ${place}`;
};

whydrop.showNearest = (plot, figure, styles, tip) => {
  const best = whydrop.nearest(plot, figure);
  tip.hidden = best === null;
  if (best === null) return;
  tip.textContent = whydrop.wordsOf(figure, best);
  tip.style.borderColor = whydrop.colourOf(styles[best.layer.style]);
  const x = plot.valToPos(best.at, "x");
  const y = plot.valToPos(best.value, "y");
  const toLeft = x > plot.over.clientWidth / 2;
  tip.style.left = toLeft ? "" : `${x + 12}px`;
  tip.style.right = toLeft ? `${plot.over.clientWidth - x + 12}px` : "";
  tip.style.top = `${Math.max(0, Math.min(y - 14, plot.over.clientHeight - 40))}px`;
};
