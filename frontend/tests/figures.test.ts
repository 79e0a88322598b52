// Tests of what needs no browser: columns, windows, numbers and times.

import { describe, expect, it } from "vitest";
import { inLight, nameOf } from "../src/figures/chart";
import { decode, decodeColumn, lowerBound, rangeOfY, rowsWithin, type Axis, type Layer, type Panel } from "../src/figures/figure";
import { nextWindow } from "../src/figures/figures";
import { inWords, powers, short, times } from "../src/figures/numbers";

function packed(kind: "f8" | "f4" | "us", values: readonly number[]): { kind: "f8" | "f4" | "us"; data: string } {
  const array = kind === "f8" ? Float64Array.from(values) : kind === "f4" ? Float32Array.from(values) : Int32Array.from(values);
  return { kind, data: btoa(String.fromCharCode(...new Uint8Array(array.buffer))) };
}

const AXIS: Axis = { title: "Time (s)", scale: "linear", ends: [0, 10], fixed: false, fromZero: "never", words: [], zeros: null };

function layer(values: Partial<Layer>): Layer {
  return {
    name: "", style: 0, mark: "line", rare: false, helper: false, counted: false, stretch: true, rows: 0, shown: 0,
    visible: true, reach: 0, ...values,
  };
}

function panel(layers: Layer[], y: Partial<Axis> = {}): Panel {
  return { title: "", zoom: "time", x: AXIS, y: { ...AXIS, ...y }, legendTitle: "", legend: [], height: 100, layers };
}

describe("columns", () => {
  it("are what was packed, in seconds where they were microseconds", () => {
    expect([...decodeColumn(packed("f8", [0.1, NaN]))]).toEqual([0.1, NaN]);
    expect([...decodeColumn(packed("f4", [0.5, -2]))]).toEqual([0.5, -2]);
    expect([...decodeColumn(packed("us", [1_500_000]))]).toEqual([1.5]);
  });

  it("of slants say how far one may reach", () => {
    const { visible: _visible, reach: _reach, y: _y, y2: _y2, ...words } = layer({ mark: "slants" });
    const choice = { name: "", focus: null, figures: [{
      key: "k", title: "", subtitle: "", see: "", notes: [], columns: 1, legend: null,
      panels: [{ ...panel([]), layers: [{ ...words, x: packed("f8", [0, 5]), x2: packed("f8", [3, 6]) }] }],
    }] };
    expect(decode(choice).figures[0]?.panels[0]?.layers[0]?.reach).toBe(3);
  });
});

describe("windows", () => {
  it("show the rows within them and one more at each side", () => {
    const line = layer({ x: [0, 1, 2, 3, 4], y: [0, 0, 0, 0, 0] });
    expect(lowerBound([0, 1, 1, 2], 1)).toBe(1);
    expect(rowsWithin(line, 1.5, 2.5)).toEqual([1, 4]);
    expect(rowsWithin(layer({ ...line, reach: 1 }), 1.5, 2.5)).toEqual([0, 5]);
  });

  it("stretch y over what they show, from zero where the axis says so", () => {
    const shown = [layer({ x: [0, 1, 2], y: [10, 20, 1000] }), layer({ x: [1], y: [5000], stretch: false })];
    expect(rangeOfY(panel(shown), 0, 1)).toEqual([10 - 0.4, 20.5]);
    expect(rangeOfY(panel(shown, { fromZero: "always" }), 0, 1)[0]).toBe(0);
    expect(rangeOfY(panel([]), 0, 1)).toEqual([0, 1]);
    expect(rangeOfY(panel(shown, { fixed: true, words: [[0, "a"]] }), 0, 1)).toEqual([0, 10]);
  });

  it("move by half of their width, and never out of the data", () => {
    const chart = { panel: panel([]), window: [0, 4] as [number, number], all: [0, 10] as [number, number] };
    expect(nextWindow(chart, "right", null)).toEqual([2, 6]);
    expect(nextWindow(chart, "left", null)).toEqual([0, 4]);
    expect(nextWindow(chart, "in", null)).toEqual([1, 3]);
    expect(nextWindow(chart, "focus", [5, 6])).toEqual([5, 6]);
    expect(nextWindow(chart, "all", null)).toEqual([0, 10]);
  });
});

describe("words", () => {
  it("of numbers are short", () => {
    expect([0, 999, 12_000, 3.5e6, 2e9, 1e-5].map(short)).toEqual(["0", "999", "12 k", "3.5 M", "2 G", "1e-5"]);
    expect(short(null)).toBe("");
  });

  it("of times name the day once", () => {
    expect(times([0, 3600, 90_000])).toEqual(["00:00\n1970-01-01", "01:00", "01:00\n1970-01-02"]);
    expect(times([0, 86_400])).toEqual(["1970-01-01", "1970-01-02"]);
    expect(times([1e300])).toHaveLength(1);
  });

  it("at logarithmic axes are powers of ten, and numbers between where there are few", () => {
    expect(powers(1, 1000)).toEqual([1, 10, 100, 1000]);
    expect(powers(1, 10)).toEqual([1, 2, 5, 10]);
  });

  it("at the cursor have the unit of the axis", () => {
    expect(inWords({ ...AXIS, title: "Rate (Mbit/s)" }, 12.5)).toBe("12.5 Mbit/s");
    expect(inWords({ ...AXIS, words: [[0, "up"], [1, "down"]] }, 0.9)).toBe("down");
    expect(inWords(AXIS, 1.5, true)).toBe("1.500000 s");
    expect(inWords({ ...AXIS, scale: "time" }, 0)).toBe("1970-01-01 00:00");
  });
});

describe("lines of a name that is lit", () => {
  const style = { light: "blue", dark: "", shape: "dot", size: 4, width: 1.5, dash: [], opacity: 1, hollow: false };

  it("are thicker, and the others fainter", () => {
    expect(inLight(style, "a", false, "a")).toMatchObject({ width: 3, opacity: 1 });
    expect(inLight(style, "b", false, "a").opacity).toBeLessThan(0.5);
    expect(inLight(style, "b", false, null)).toEqual(style);
  });

  it("leave losses of others as they are", () => {
    expect(inLight(style, "lost packet", true, "a")).toEqual(style);
  });

  it("include the samples without a name that have their colour", () => {
    const [samples, mean, other] = [layer({ style: 1 }), layer({ name: "a" }), layer({ style: 2 })];
    const styles = [style, { ...style, width: 1 }, { ...style, light: "red" }];
    expect(nameOf(panel([other, samples, mean]), styles, samples)).toBe("a");
    expect(nameOf(panel([other, samples, mean]), styles, other)).toBe("");
  });
});
