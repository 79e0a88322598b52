import { describe, expect, it } from "vitest";
import { summaryOf } from "../src/app/watch/connections";
import { notWritten, summaryOf as summaryOfPorts } from "../src/app/watch/ports";
import { matches, rowsOf, sorted, type State } from "../src/app/watch/rows";

const STATE: State = {
  time_s: 1, total: 4, found: 4, columns: ["local", "limit", "sent_mbps"],
  rows: [["192.0.2.1:80", "idle", 3], ["192.0.2.1:81", "receive window", null], ["192.0.2.1:82", "idle", 7]],
  limits: [["idle", 3], ["receive window", 1]], warnings: ["not root"],
};

describe("connections", () => {
  it("are found by all of their words, in any case", () => {
    const rows = rowsOf(STATE);
    expect(rows.filter((row) => matches(row, "RECEIVE :81")).map((row) => row["local"])).toEqual(["192.0.2.1:81"]);
    expect(rows.filter((row) => matches(row, ":81 idle"))).toEqual([]);
    expect(rows.filter((row) => matches(row, " "))).toHaveLength(3);
  });

  it("are sorted by a column, those with no value last either way", () => {
    const names = (by: string): unknown[] => sorted(rowsOf(STATE), by).map((row) => row["sent_mbps"]);
    expect(names("sent_mbps")).toEqual([3, 7, null]);
    expect(names("-sent_mbps")).toEqual([7, 3, null]);
    expect(names("")).toEqual([3, null, 7]);
  });

  it("say how many of them are not listed", () => {
    expect(summaryOf(STATE, 3, false)).toBe("4 connections; 1 of them not listed: search, or sort them; limited by: 3 idle, 1 receive window. not root.");
  });
});

describe("ports", () => {
  it("are counted by state, with the age of what the store has", () => {
    const found = { total: 700, found: 600, rows: Array.from({ length: 500 }, () => []), states: [["discarding", 2], ["no discards", 698]] as [string, number][], polled_s: 0, interval_s: 10 };
    expect(summaryOfPorts(found).replace(/\u00a0/g, " ")).toBe(
      "700 ports; 2 discarding; 698 no discards; 600 found; 100 of them not listed: search, or sort them. Last poll 1970-01-01 00:00:00 UTC, one each 10 s.",
    );
    expect(notWritten({ polled_s: 100 }, 3800).replace(/\u00a0/g, " ")).toContain("its last poll was 1 h 2 min ago");
    expect(notWritten({ polled_s: null }, 3800)).toBe("The store has no polls of switches.");
  });
});
