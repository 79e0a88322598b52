// What the address of an analysis says: files, a selection of their packets, and what is looked at.

import type { Ends } from "../figures/figure";
import { query } from "./server";

export interface OpenState {
  sources: string[];
  filter: string;
  begin: string;
  end: string;
  // Flows whose charts are shown; none: those that the page begins with.
  flows: string[];
  // The set of figures shown, by section.
  shown: Record<string, number>;
  // Windows by clock: of packets in seconds since the Unix epoch, of a test in seconds since its start.
  zoom: Partial<Record<Clock, Ends>>;
  packets: boolean;
  lost: boolean;
  // The reader's own paths, by the number of the verdict beside which they are.
  models: Record<number, string>;
}

export type Clock = "time" | "test";

const WINDOW = /^(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?)$/;

export function stateOf(search: string): OpenState {
  const given = new URLSearchParams(search);
  const shown: Record<string, number> = {};
  for (const one of given.getAll("shown")) {
    const [, part, number] = /^([\w-]+):(\d{1,4})$/.exec(one) ?? [];
    if (part) shown[part] = Number(number);
  }
  const models: Record<number, string> = {};
  for (const one of given.getAll("model")) {
    const [, verdict, path] = /^(\d{1,4}):(.{0,1000})$/.exec(one) ?? [];
    if (verdict !== undefined && path !== undefined) models[Number(verdict)] = path;
  }
  const zoom: OpenState["zoom"] = {};
  for (const [clock, name] of [["time", "zoom"], ["test", "zoom_test"]] as const) {
    const window = windowOf(given.get(name) ?? "");
    if (window) zoom[clock] = window;
  }
  return {
    sources: given.getAll("source"),
    filter: given.get("filter") ?? "",
    begin: given.get("begin") ?? "",
    end: given.get("end") ?? "",
    flows: given.getAll("flow"),
    shown,
    zoom,
    packets: given.get("packets") === "true",
    lost: given.get("lost") === "true",
    models,
  };
}

// A window is two numbers, the lower one first; anything else is none.
export function windowOf(text: string): Ends | null {
  const [, low, high] = WINDOW.exec(text) ?? [];
  return low !== undefined && high !== undefined && Number(low) < Number(high) ? [Number(low), Number(high)] : null;
}

export function linkOf(state: OpenState): string {
  const { sources, filter, begin, end, flows, zoom, packets, lost } = state;
  // Microseconds: what a 64-bit number of seconds since 1970 holds.
  const words = (window: Ends | undefined): string => (window ? window.map((one) => one.toFixed(6)).join("..") : "");
  const shown = Object.entries(state.shown).filter(([, number]) => number > 0).map(([part, number]) => `${part}:${number}`);
  const models = Object.entries(state.models).map(([verdict, path]) => `${verdict}:${path}`);
  return query({
    source: sources, filter, begin, end, flow: flows, shown, zoom: words(zoom.time), zoom_test: words(zoom.test),
    packets: packets || "", lost: lost || "", model: models,
  });
}
