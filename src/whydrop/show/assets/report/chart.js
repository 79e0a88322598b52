// One pair of axes: uPlot gives axes, zoom and cursor; the layers are drawn into it, each with its own x.
"use strict";

whydrop.isDark = () => {
  if (whydrop.printing) return false;
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
};

whydrop.colourOf = (style) => (whydrop.isDark() ? style.dark : style.light);

whydrop.cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// From values to places along an axis, and back: windows move along these.
whydrop.warpOf = (axis) => (axis.scale === "log" ? [Math.log, Math.exp] : [(value) => value, (value) => value]);

// Makes the chart in `place`. `onZoom(chart, low, high)` is called with every new window of x.
whydrop.makeChart = (place, panel, styles, onZoom) => {
  const size = () => ({ width: place.clientWidth, height: whydrop.heightOf(panel, place.clientWidth) });
  const all = panel.x.ends;
  const [warp, unwarp] = whydrop.warpOf(panel.x);
  const state = { window: all };
  const options = {
    ...size(),
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1e3), "Etc/UTC"),
    scales: {
      x: { time: panel.x.scale === "time", distr: panel.x.scale === "log" ? 3 : 1, range: () => state.window },
      y: { distr: panel.y.scale === "log" ? 3 : 1, range: () => whydrop.rangeOfY(panel, ...state.window) },
    },
    series: [{}, { show: true, paths: () => null, points: { show: false } }],
    axes: [whydrop.axis(panel.x, place, false, size().height), whydrop.axis(panel.y, place, true, size().height)],
    legend: { show: false },
    padding: [10, 14, 0, 4],
    cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false }, y: false },
    hooks: {
      draw: [(plot) => whydrop.drawPanel(plot, panel, styles)],
      setSelect: [
        (plot) => {
          if (plot.select.width < 4) return;
          const low = plot.posToVal(plot.select.left, "x");
          const high = plot.posToVal(plot.select.left + plot.select.width, "x");
          plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
          onZoom(chart, low, high);
        },
      ],
      setCursor: [(plot) => whydrop.showNearest(plot, panel, styles, tip)],
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
    panel,
    all,
    get window() {
      return state.window;
    },
    setWindow: (low, high) => {
      const [least, greatest] = all.map(warp);
      // No closer than a microsecond or a millionth of the whole: beyond that numbers lose their digits.
      const closest = Math.max(1e-6, (greatest - least) * 1e-6);
      const [from, to] = [low, high].map(warp);
      const span = Math.min(Math.max(to - from, closest), greatest - least);
      const start = Math.min(Math.max((from + to - span) / 2, least), greatest - span);
      state.window = [unwarp(start), unwarp(start + span)];
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

// What lies on an axis of words needs its height; other panels are lower where they are narrow.
whydrop.heightOf = (panel, width) => {
  const height = panel.height * 0.75 + 90;
  return Math.round(panel.y.words.length > 0 ? height : Math.max(170, Math.min(height, width * 0.72)));
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

whydrop.cut = (words, letters) => (words.length > letters ? `${words.slice(0, Math.floor(letters) - 1)}…` : words);

whydrop.axis = (axis, place, upright, height) => {
  const narrow = place.clientWidth < 600;
  const letters = Math.max(6, Math.floor((place.clientWidth * (upright ? 0.35 : 1 / Math.max(1, axis.words.length))) / 7));
  const longest = Math.max(0, ...axis.words.map(([, words]) => Math.min(words.length, letters)));
  return {
    label: whydrop.cut(narrow ? whydrop.shortTitle(axis.title) : axis.title, upright ? (height - 70) / 6.6 : Infinity),
    labelSize: axis.title ? 22 : 4,
    labelFont: "13px system-ui, sans-serif",
    font: "12px system-ui, sans-serif",
    size: upright ? (longest > 0 ? longest * 7 + 16 : 62) : 40,
    side: upright ? 3 : 2,
    stroke: () => whydrop.cssColour("--ink"),
    grid: { show: axis.words.length === 0, stroke: () => whydrop.cssColour("--grid"), width: 1 },
    ticks: { stroke: () => whydrop.cssColour("--grid"), width: 1, size: 5 },
    ...whydrop.ticks(axis, letters),
  };
};

// Words at places of an axis instead of numbers, powers of ten where it is logarithmic, 0 where zeros stand.
whydrop.ticks = (axis, letters) => {
  if (axis.words.length > 0) {
    const words = axis.words.map(([, word]) => whydrop.cut(word, letters));
    return { splits: () => axis.words.map(([at]) => at), values: () => words };
  }
  if (axis.scale === "log") {
    const zeros = axis.zeros ? [axis.zeros[0]] : [];
    const splits = (plot, _, least, greatest) => {
      const found = whydrop.powers(Math.max(least, axis.zeros?.[1] ?? 0), greatest);
      // The number beside that of the zeros only where both can be read.
      const pixels = Math.min(plot.bbox.width, plot.bbox.height) / devicePixelRatio / Math.log(greatest / least);
      return [...zeros, ...found.filter((value) => zeros.every((zero) => Math.log(value / zero) * pixels > 14))];
    };
    // uPlot would leave out the words of all but powers of ten.
    return { splits, filter: (_, places) => places, values: (_, places) => places.map((value) => (zeros.includes(value) ? "0" : whydrop.short(value))) };
  }
  if (axis.scale === "time") return { values: (_, places) => whydrop.times(places), space: 70 };
  return { values: (_, places) => places.map(whydrop.short) };
};

// Seconds since the Unix epoch as UTC: days as dates, and below the first time of each day its date.
whydrop.times = (places) => {
  const step = places.length > 1 ? places[1] - places[0] : 86400;
  let day = "";
  return places.map((place) => {
    const [date, time] = new Date(place * 1e3).toISOString().split(/[T.]/);
    if (step >= 86400) return date;
    const words = step >= 60 ? time.slice(0, 5) : step >= 1 ? time : `${time}.${new Date(place * 1e3).toISOString().slice(20, 23)}`;
    const first = date !== day;
    day = date;
    return first ? `${words}\n${date}` : words;
  });
};

// Powers of ten between two ends, no more than have room; of a short interval also what lies between them.
whydrop.powers = (low, high) => {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const step = last - first < 2 ? 1 : Math.ceil((last - first + 1) / 7);
  const found = [];
  for (let power = first - 1; power <= last; power += step) {
    for (const factor of last - first < 2 ? [1, 2, 5] : [1]) found.push(factor * 10 ** (power + (step > 1 ? 1 : 0)));
  }
  return found.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
};

// A number with few digits: large ones with the prefix of a unit, small ones as powers.
whydrop.short = (value) => {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-3)) return value.toExponential().replace("e+", "e");
  const [scale, prefix] = [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e4, " k"]].find(([least]) => size >= least) ?? [1, ""];
  return (scale === 1e4 ? value / 1e3 : value / scale).toLocaleString("en", { maximumSignificantDigits: 6 }) + prefix;
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
    left,
    right: left + width,
    top,
    foot: top + height,
    low,
    high,
    ratio: window.devicePixelRatio || 1,
  };
};

whydrop.drawPanel = (plot, panel, styles) => {
  const { ctx, bbox } = plot;
  const scale = whydrop.scaleOf(plot);
  // Marks on the base line are seen whole, so the clip is a little wider than the axes.
  const slack = 6 * scale.ratio;
  whydrop.drawZeros(ctx, panel, scale);
  for (const layer of panel.layers) {
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
  if (panel.layers.length === 0) {
    ctx.save();
    ctx.fillStyle = whydrop.cssColour("--soft");
    const middle = { text: ["no data"], x: [0], y: [0] };
    whydrop.draws.text(ctx, middle, 0, 1, { ...scale, x: () => (scale.left + scale.right) / 2, y: () => (scale.top + scale.foot) / 2 });
    ctx.restore();
  }
};

// Where a logarithmic axis ends and its zeros begin.
whydrop.drawZeros = (ctx, panel, scale) => {
  const style = { width: 0.8, dash: [3, 3], opacity: 1 };
  for (const name of ["x", "y"]) {
    const { zeros } = panel[name];
    if (zeros) whydrop.drawLayer(ctx, { mark: "rule", [name]: [zeros[1]] }, style, whydrop.cssColour("--soft"), scale);
  }
};

// The mark nearest to the cursor, within reach; rare ones win over lines that are as near.
whydrop.nearest = (plot, panel) => {
  const { left: cursorX, top: cursorY } = plot.cursor;
  if (cursorX === undefined || cursorX < 0) return null;
  const reach = 24;
  let best = null;
  for (const layer of panel.layers) {
    if (!layer.visible || layer.mark === "rule" || layer.mark === "text") continue;
    const [first, last] = whydrop.rowsWithin(layer, plot.posToVal(cursorX - reach, "x"), plot.posToVal(cursorX + reach, "x"));
    for (let row = first; row < last; row += 1) {
      const value = layer.y2 ? (layer.y[row] + layer.y2[row]) / 2 : layer.y[row];
      const at = layer.x2 ? (layer.x[row] + layer.x2[row]) / 2 : layer.x[row];
      const inside = layer.mark === "bars" && whydrop.isInside(plot, layer, row);
      const across = inside ? 0 : plot.valToPos(at, "x") - cursorX;
      const along = inside ? 0 : plot.valToPos(value, "y") - cursorY;
      const distance = Math.hypot(across, along) - (layer.rare ? 6 : 0);
      if (distance < reach && (best === null || distance < best.distance)) best = { distance, layer, row, at, value };
    }
  }
  return best;
};

whydrop.isInside = (plot, layer, row) => {
  const within = (value, a, b) => value >= Math.min(a, b) && value <= Math.max(a, b);
  const x = plot.posToVal(plot.cursor.left, "x");
  const y = plot.posToVal(plot.cursor.top, "y");
  return within(x, layer.x[row], layer.x2[row]) && within(y, layer.y[row], layer.y2[row]);
};

whydrop.number = (value) => Number(value.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 6 });

whydrop.unitOf = (axis) => {
  if (axis.scale === "time") return "";
  const found = /\(([^);]+)[);]/.exec(axis.title);
  return found ? ` ${found[1].split(" since")[0]}` : "";
};

// A value of an axis in words; `exactly` for times that differ by microseconds.
whydrop.inWords = (axis, value, exactly) => {
  if (axis.words.length > 0) {
    return axis.words.reduce((best, one) => (Math.abs(one[0] - value) < Math.abs(best[0] - value) ? one : best))[1];
  }
  if (axis.scale === "time") return new Date(value * 1e3).toISOString().replace("T", " ").replace(/(:00)?\.000Z/, "");
  if (axis.zeros && value < axis.zeros[1]) return `0${whydrop.unitOf(axis)}`;
  return exactly ? `${value.toFixed(6)} s` : whydrop.number(value) + whydrop.unitOf(axis);
};

// The words at the cursor for a mark: its name, its value, its place.
whydrop.wordsOf = (panel, { layer, row, at, value }) => {
  const overTime = panel.zoom === "time" && panel.x.scale === "linear";
  const name = layer.name ? `${layer.name}: ` : "";
  const upTo = (axis, from, to) => `${whydrop.number(from)} to ${whydrop.inWords(axis, to)}`;
  if (layer.mark === "bars") {
    const along = panel.y.words.length > 0;
    const [wide, high] = [upTo(panel.x, layer.x[row], layer.x2[row]), upTo(panel.y, layer.y[row], layer.y2[row])];
    if (along) return `${name}${panel.x.words.length > 0 ? whydrop.inWords(panel.x, at) : wide}, ${whydrop.inWords(panel.y, value)}`;
    return `${name}${layer.y2[row] === 0 || panel.y.scale === "log" ? whydrop.inWords(panel.y, layer.y[row]) : high} at ${panel.x.scale === "time" ? whydrop.inWords(panel.x, at) : wide}`;
  }
  const slant = layer.mark === "slants";
  let place = whydrop.inWords(panel.x, slant ? layer.x[row] : at, overTime);
  if (slant && layer.x2[row] > layer.x[row]) {
    const length = layer.x2[row] - layer.x[row];
    place += `, for ${overTime ? `${whydrop.number(length * 1e3)} ms` : whydrop.number(length) + whydrop.unitOf(panel.x)}`;
  }
  if (panel.y.words.length > 0) return slant || panel.zoom === "time" || !layer.y ? `${name}at ${place}` : `${name}${place}`;
  const worth = layer.y2 && !slant ? upTo(panel.y, layer.y[row], layer.y2[row]) : whydrop.inWords(panel.y, value);
  return `${name}${worth} at ${place}`;
};

whydrop.showNearest = (plot, panel, styles, tip) => {
  const best = whydrop.nearest(plot, panel);
  tip.hidden = best === null;
  if (best === null) return;
  tip.textContent = whydrop.wordsOf(panel, best);
  tip.style.borderColor = whydrop.colourOf(styles[best.layer.style]);
  const x = plot.valToPos(best.at, "x");
  const y = plot.valToPos(best.value, "y");
  const toLeft = x > plot.over.clientWidth / 2;
  tip.style.left = toLeft ? "" : `${x + 12}px`;
  tip.style.right = toLeft ? `${plot.over.clientWidth - x + 12}px` : "";
  tip.style.top = `${Math.max(0, Math.min(y - 14, plot.over.clientHeight - 40))}px`;
};
