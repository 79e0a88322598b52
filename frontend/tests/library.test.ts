import { describe, expect, it } from "vitest";
import { leaves } from "../src/app/browse/details";
import { tagsIn } from "../src/app/browse/marks";
import { DEFAULT_COLUMNS, linkOf, sorted, stateOf, type State } from "../src/app/browse/state";

describe("the state of the library", () => {
  it("is as usual without an address, and the usual state has none", () => {
    const state = stateOf("");
    expect(state.columns).toEqual(DEFAULT_COLUMNS);
    expect(linkOf(state)).toBe("");
  });

  it("comes back from its address", () => {
    const state: State = {
      q: 'rtt>50 "a b" &=#?', sort: ["-rtt", "title"], page: 3, columns: ["name", "hosts.local.kernel.release"], entry: "12ab",
      table: "ndt", row: 50, chosen: ["12ab", "34cd"],
    };
    expect(stateOf(linkOf(state))).toEqual(state);
  });

  it("takes nothing from a wrong address that it could not have written", () => {
    const state = stateOf("?page=-1&row=1.5&column=name&column=name");
    expect([state.page, state.row, state.columns]).toEqual([0, 0, ["name"]]);
  });
});

describe("a click on a heading", () => {
  it("orders by it alone, the greatest first", () => {
    expect(sorted(["-started"], "title", false)).toEqual(["-title"]);
  });

  it("turns the order round when it is the only one", () => {
    expect(sorted(["-started"], "started", false)).toEqual(["started"]);
    expect(sorted(["started"], "started", false)).toEqual(["-started"]);
  });

  it("with Shift orders by it after the others, and turns it round where it stands", () => {
    expect(sorted(["-rtt"], "title", true)).toEqual(["-rtt", "-title"]);
    expect(sorted(["-rtt", "-title"], "rtt", true)).toEqual(["rtt", "-title"]);
  });

  it("keeps its order where it was one of several", () => {
    expect(sorted(["rtt", "-title"], "rtt", false)).toEqual(["rtt"]);
  });
});

describe("metadata", () => {
  it("has the keys of the index", () => {
    const metadata = { test: { hosts: ["a", "b"], flows: [{ name: "x" }] }, title: null };
    expect(leaves(metadata, "")).toEqual([["test.hosts", "a, b"], ["test.flows[0].name", "x"], ["title", ""]]);
  });
});

describe("tags", () => {
  it("are what stands between commas", () => {
    expect(tagsIn(" slow, wi-fi link ,,")).toEqual(["slow", "wi-fi link"]);
  });
});
