// The ports of switches that a store has: discards, rates and when each was read last; one of them over time.

import { element } from "../../figures/element";
import { onThemeChange } from "../../figures/theme";
import type { Key } from "../keyboard";
import { Plots, type Kind } from "../run/plots";
import { ask, messageOf, query, stores as listed, type Entry } from "../server";
import { count, duration, instant, plural } from "../words";
import { Address } from "./address";
import { Head } from "./head";
import { rowsOf, type Column, type Row } from "./rows";

interface Ports {
  total: number;
  found: number;
  columns: string[];
  rows: (string | number | null)[][];
  states: [string, number][];
  polled_s: number | null;
  interval_s: number | null;
  is_written: boolean;
  notes: string[];
}

const COLUMNS: readonly Column[] = [
  { name: "switch", title: "Switch" },
  { name: "port", title: "Port" },
  { name: "machine", title: "Machine" },
  { name: "state", title: "State" },
  { name: "discards_tx", title: "Discards sending", digits: 0 },
  { name: "discards_rx", title: "Discards receiving", digits: 0 },
  { name: "sent_mbps", title: "Sent (Mbit/s)", digits: 3 },
  { name: "received_mbps", title: "Received (Mbit/s)", digits: 3 },
  { name: "errors_rx", title: "Errors receiving", digits: 0 },
  { name: "read_s", title: "Last read (UTC)" },
  { name: "poll", title: "Last poll" },
];

const CHARTS: Readonly<Record<string, Kind>> = {
  rate: { title: "Rate", unit: "Mbit/s", note: "Octets of the port, as the switch counts them." },
  discards: { title: "Discards", unit: "packets/s" },
  errors: { title: "Errors", unit: "packets/s" },
};

const WINDOWS: readonly [number, string][] = [[3600, "1 hour"], [21_600, "6 hours"], [86_400, "1 day"], [604_800, "7 days"]];
// What names a port in the address.
const OF_PORT = ["switch", "port", "machine"];

const EVERY_MS = 30_000;
// Reading a long time of a fleet takes seconds: it takes a twentieth of the time at most.
const REST = 20;

export class PortTable {
  readonly element = element("section", { id: "ports", "aria-label": "Ports of switches" });
  private readonly address = new Address();
  private readonly store = element("select", { id: "ports-store" });
  private readonly window = element("select", { id: "ports-window" }, ...WINDOWS.map(([seconds, words]) => element("option", { value: seconds }, words)));
  private readonly search = element("input", { type: "search", id: "ports-search", placeholder: "Words: a switch, a port, a state", "aria-label": "Search ports" });
  private readonly summary = element("p", { class: "small", role: "status" });
  private readonly note = element("p", { class: "note", role: "alert", hidden: "" });
  private readonly head = new Head(COLUMNS, this.address, "ports-sort", () => void this.refresh());
  private readonly body = element("tbody");
  private readonly chosen = element("section", { class: "chosen-port", hidden: "", "aria-label": "The chosen port" });
  private plots: Plots | null = null;
  private asked = 0;

  async start(): Promise<void> {
    const heading = element("h2", {}, "Ports of switches");
    let stores: readonly Entry[];
    try {
      stores = await listed();
    } catch (reason) {
      this.element.replaceChildren(heading, this.note);
      this.say(messageOf(reason));
      return;
    }
    if (stores.length === 0) {
      this.element.replaceChildren(heading, element("p", {}, "No store in the folders of this server. ", element("code", {}, "whydrop collect CONFIG.toml"), " polls switches into one."));
      return;
    }
    this.build(heading, stores);
    await this.goOn();
  }

  private async goOn(): Promise<void> {
    const began = performance.now();
    if (!document.hidden) await this.refresh();
    window.setTimeout(() => void this.goOn(), Math.max(EVERY_MS, REST * (performance.now() - began)));
  }

  keys(): Key[] {
    return [
      { key: "s", words: "Search ports of switches", act: () => this.search.focus() },
      { key: "r", words: "Read the store again", act: () => void this.refresh() },
    ];
  }

  private build(heading: HTMLElement, stores: readonly Entry[]): void {
    this.store.replaceChildren(...stores.map((one) => element("option", { value: one.id }, one.path)));
    if (stores.some(({ id }) => id === this.address.get("store"))) this.store.value = this.address.get("store");
    if (WINDOWS.some(([seconds]) => String(seconds) === this.address.get("window"))) this.window.value = this.address.get("window");
    this.search.value = this.address.get("ports");
    this.store.addEventListener("change", () => {
      this.close();
      this.keep("store", this.store.value);
    });
    this.window.addEventListener("change", () => this.keep("window", this.window.value));
    this.search.addEventListener("input", () => this.keep("ports", this.search.value));
    onThemeChange(() => this.plots?.redraw());
    const field = (label: string, input: HTMLElement): HTMLElement => element("label", { class: "option", for: input.id }, label, input);
    const controls = element("div", { class: "watch-controls" }, field("Store", this.store), field("Discards of the last", this.window), this.search);
    const table = element("table", {}, element("thead", {}, this.head.element), this.body);
    const box = element("div", { class: "scroll wide tall", tabindex: 0, role: "region", "aria-label": "Table of ports" }, table);
    this.element.replaceChildren(heading, controls, this.note, this.summary, box, this.chosen);
  }

  private keep(name: string, value: string): void {
    this.address.set(name, value);
    void this.refresh();
  }

  private async refresh(): Promise<void> {
    this.asked += 1;
    const mine = this.asked;
    try {
      const found = await ask<Ports>("GET", `/api/watch/ports${query({ store: this.store.value, q: this.search.value, sort: this.head.sort, window_s: this.window.value })}`);
      if (mine !== this.asked) return;
      this.show(found);
      if (this.address.get("port")) await this.draw();
    } catch (reason) {
      if (mine === this.asked) this.say(messageOf(reason));
    }
  }

  private show(found: Ports): void {
    this.summary.textContent = summaryOf(found);
    this.note.hidden = found.is_written && found.notes.length === 0;
    if (!this.note.hidden) this.say([...(found.is_written ? [] : [notWritten(found, Date.now() / 1e3)]), ...found.notes].join(" "));
    const rows = rowsOf(found).map((row) => this.rowOf(row));
    const at = [...this.body.querySelectorAll("button")].indexOf(document.activeElement as HTMLButtonElement);
    const nothing = element("tr", {}, element("td", { colspan: COLUMNS.length }, found.total ? "No port has these words." : "This store has no counters of switches."));
    this.body.replaceChildren(...(rows.length ? rows : [nothing]));
    if (at >= 0) this.body.querySelectorAll("button")[at]?.focus({ preventScroll: true });
  }

  private rowOf(row: Row): HTMLTableRowElement {
    const button = element("button", { type: "button", class: "plain link" }, String(row["port"]));
    button.addEventListener("click", () => {
      for (const name of OF_PORT) this.address.set(name, row[name] === null ? "" : String(row[name]));
      void this.refresh();
    });
    const cells = COLUMNS.map((column) => (column.name === "port" ? element("th", { scope: "row" }, button) : element("td", column.digits === undefined ? {} : { class: "number" }, inWords(row, column))));
    const isBad = row["state"] === "discarding" || row["state"] === "no answer";
    const chosen = OF_PORT.every((name) => String(row[name] ?? "") === this.address.get(name));
    return element("tr", { class: [isBad ? "bad" : "", chosen ? "chosen" : ""].join(" ").trim() }, ...cells);
  }

  private async draw(): Promise<void> {
    const own = Object.fromEntries(OF_PORT.map((name) => [name, this.address.get(name)]));
    const { series } = await ask<{ series: Record<string, [number, number][]> }>("GET", `/api/watch/port${query({ ...own, store: this.store.value, window_s: this.window.value })}`);
    if (OF_PORT.some((name) => own[name] !== this.address.get(name))) return;
    const before = this.plots;
    this.plots = new Plots(CHARTS);
    const close = element("button", { type: "button" }, "Close the charts of the port");
    close.addEventListener("click", () => this.close());
    const nothing = Object.keys(series).length ? [] : [element("p", {}, "The store has no samples of this port in this time.")];
    this.chosen.replaceChildren(element("h2", {}, OF_PORT.map((name) => own[name]).filter((one) => one).join(", ")), close, ...nothing, this.plots.element);
    before?.destroy();
    this.chosen.hidden = false;
    this.plots.add(series);
  }

  private close(): void {
    for (const name of OF_PORT) this.address.set(name, "");
    this.plots?.destroy();
    this.plots = null;
    this.chosen.hidden = true;
    this.body.querySelector(".chosen")?.classList.remove("chosen");
  }

  private say(words: string): void {
    this.note.textContent = words;
    this.note.hidden = false;
  }
}

function inWords(row: Row, { name, digits }: Column): string {
  const value = row[name];
  if (value === null || value === undefined) return "–";
  if (name === "read_s") return instant(Number(value));
  if (name === "poll" && row["message"]) return `${String(value)}: ${String(row["message"])}`;
  return typeof value === "number" && digits !== undefined ? (digits ? String(Number(value.toPrecision(digits))) : count(value)) : String(value);
}

export function summaryOf(found: Pick<Ports, "total" | "found" | "rows" | "states" | "polled_s" | "interval_s">): string {
  const parts = [plural(found.total, "port"), ...found.states.map(([state, number]) => `${count(number)} ${state}`)];
  if (found.found < found.total) parts.push(`${count(found.found)} found`);
  if (found.rows.length < found.found) parts.push(`${count(found.found - found.rows.length)} of them not listed: search, or sort them`);
  const polled = found.polled_s === null ? "" : ` Last poll ${instant(found.polled_s)} UTC${found.interval_s ? `, one each ${duration(found.interval_s)}` : ""}.`;
  return `${parts.join("; ")}.${polled}`;
}

export function notWritten({ polled_s: polled }: Pick<Ports, "polled_s">, nowS: number): string {
  if (polled === null) return "The store has no polls of switches.";
  return `The store is not being written: its last poll was ${duration(Math.max(0, Math.round(nowS - polled)))} ago. States are those of that time. Does whydrop collect still run?`;
}
