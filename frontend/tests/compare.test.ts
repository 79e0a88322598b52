// The options of plots: where they apply, and what is typed into them.

import { describe, expect, it } from "vitest";

import { listOf, OPTIONS, type Context } from "../src/app/compare/options";

const ALONE: Context = {
  kind: "time-series", count: 1, isCombined: false, isGrid: false, isBySets: false, hasBaseline: false, isRatio: false,
};
const shown = (plot: Partial<Context>): string[] => OPTIONS.filter((one) => one.applies({ ...ALONE, ...plot })).map(({ name }) => name);

describe("the options of a plot", () => {
  it("are of one recording only where there is one", () => {
    for (const name of ["combine", "group_by", "baseline"]) {
      expect(shown({})).not.toContain(name);
      expect(shown({ count: 2 })).toContain(name);
    }
  });

  it("smooth and end the axis of time only over time", () => {
    for (const name of ["smooth", "smooth_across_load", "time", "absolute_time"]) {
      expect(shown({})).toContain(name);
      expect(shown({ kind: "cdf" })).not.toContain(name);
    }
  });

  it("let a ratio be logarithmic, and no difference", () => {
    expect(shown({ count: 2, hasBaseline: true })).not.toContain("log");
    expect(shown({ count: 2, hasBaseline: true, isRatio: true })).toContain("log");
  });

  it("leave groups to the sets of the page", () => {
    expect(shown({ count: 4, isBySets: true, isCombined: true })).not.toContain("group_by");
  });

  it("have no baseline where recordings are combined", () => {
    expect(shown({ count: 4, isCombined: true })).not.toContain("baseline");
    expect(shown({ count: 4, hasBaseline: true })).not.toContain("combine");
  });

  it("each say what they do", () => {
    for (const { explanation, label } of OPTIONS) {
      expect(label).not.toBe("");
      expect(explanation).toMatch(/^[A-Z].*\.$/);
    }
    expect(new Set(OPTIONS.map(({ name }) => name)).size).toBe(OPTIONS.length);
  });
});

describe("a list with commas", () => {
  it("leaves out what is empty", () => {
    expect(listOf(" TCP download*, ,!*EF,")).toEqual(["TCP download*", "!*EF"]);
  });
});
