import { describe, expect, it } from "vitest";
import type { Layer } from "../src/figures/figure";
import { behind, stateInWords, type RunJob } from "../src/app/run/following";
import { bounds, faultOf, written, type Parameter } from "../src/app/run/parameters";
import { put } from "../src/app/run/plots";

function parameter(type: string, more: Partial<Parameter> = {}): Parameter {
  return { type, default: null, required: false, minimum: null, maximum: null, choices: null, help: null, value: null, ...more };
}

function layer(): Layer {
  return { name: "", style: 0, mark: "line", rare: false, helper: false, counted: false, stretch: true, rows: 0, shown: 0, visible: true, reach: 0, x: [], y: [] };
}

function event(state: string, number: number, series = true): RunJob {
  return { id: "1", kind: "run", about: {}, state, progress: { number }, problem: "", ...(series ? { series: {} } : {}) };
}

describe("parameters", () => {
  it("takes quantities with their units", () => {
    const duration = parameter("duration", { minimum: 0.1, maximum: 3600 });
    for (const text of ["", "20", "200 ms", "1min", "0.5 h", "1e2"]) expect(faultOf(duration, text)).toBe("");
    expect(faultOf(parameter("rate", { minimum: 1 }), "10 Mbit/s")).toBe("");
    expect(faultOf(parameter("size", { minimum: 1 }), "64 KiB")).toBe("");
  });

  it("says what is wrong with others", () => {
    const duration = parameter("duration", { minimum: 0.1, maximum: 3600 });
    expect(faultOf(duration, "soon")).toContain("such as 20 ms");
    expect(faultOf(duration, "10 parsec")).toContain("such as 20 ms");
    expect(faultOf(duration, "2 h")).toContain("0.1 to 3600 s");
    expect(faultOf(duration, "-1")).toContain("0.1 to 3600 s");
    expect(faultOf(parameter("integer"), "1.5")).toBe("Expected a whole number.");
    expect(faultOf(parameter("text", { required: true }), " ")).toBe("This must be set.");
  });

  it("writes defaults as the form takes them back", () => {
    for (const [type, value] of [["duration", 0.2], ["rate", 1e6], ["size", 1500], ["integer", 4]] as const) {
      expect(faultOf(parameter(type), written(parameter(type, { value })))).toBe("");
    }
    expect(written(parameter("list", { value: ["up", "down"] }))).toBe("up,down");
    expect(written(parameter("boolean", { value: false }))).toBe("no");
    expect(written(parameter("text", { value: null }))).toBe("");
  });

  it("says its bounds", () => {
    expect(bounds(parameter("duration", { minimum: 0 }))).toBe("At least 0 s, such as 20 ms.");
    expect(bounds(parameter("text"))).toBe("");
  });
});

describe("points", () => {
  it("are in order of time, and one of the same time is replaced", () => {
    const drawn = layer();
    put(drawn, [[1, 10], [2, 20], [4, 40]]);
    put(drawn, [[3, 30], [2, 21], [5, 50], [0, 0]]);
    expect(drawn.x).toEqual([0, 1, 2, 3, 4, 5]);
    expect(drawn.y).toEqual([0, 10, 21, 30, 40, 50]);
  });

  it("of events that came before all points were read are not drawn twice", () => {
    const events = [event("measuring", 4), event("measuring", 5), event("measuring", 6), event("complete", 6, false)];
    expect(behind(events, 5)).toEqual([events[2], events[3]]);
  });
});

describe("the state in words", () => {
  it("says how much is left", () => {
    const job: RunJob = { ...event("measuring", 1), progress: { elapsed_s: 12.2, total_s: 70 } };
    expect(stateInWords(job).replaceAll("\u00a0", " ")).toBe("Measuring: 12 s of 1 min 10 s, 58 s left");
    expect(stateInWords({ ...job, progress: { elapsed_s: null, total_s: 70 } })).toBe("Measuring");
  });
});
