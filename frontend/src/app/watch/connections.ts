// The connections of this host, with what limits each at the moment; one of them is drawn over time.

import { element } from "../../figures/element";
import { onThemeChange } from "../../figures/theme";
import type { Key } from "../keyboard";
import { Plots, type Kind } from "../run/plots";
import { ask, listen, messageOf, query } from "../server";
import { count, plural } from "../words";
import { Address } from "./address";
import { Head } from "./head";
import { matches, rowsOf, sorted, type Column, type Row, type State } from "./rows";

interface Answer extends State {
  verdicts: Record<string, string>;
}

// In their order in the table.
const COLUMNS: readonly Column[] = [
  { name: "local", title: "This end" },
  { name: "remote", title: "Other end" },
  { name: "limit", title: "Limited by" },
  { name: "process", title: "Process" },
  { name: "sent_mbps", title: "Sent (Mbit/s)", digits: 3 },
  { name: "received_mbps", title: "Received (Mbit/s)", digits: 3 },
  { name: "rtt_ms", title: "RTT (ms)", digits: 3 },
  { name: "cwnd_packets", title: "cwnd", digits: 0 },
  { name: "retransmitted_in_all", title: "Retransmitted", digits: 0 },
  { name: "congestion_control", title: "Congestion control" },
];

const CHARTS: Readonly<Record<string, Kind>> = {
  goodput: { title: "Goodput", unit: "Mbit/s", note: "Payload that was acknowledged, or received." },
  rtt: { title: "Round-trip time that TCP sees", unit: "ms" },
  window: { title: "Congestion window", unit: "packets" },
  retransmissions: { title: "Retransmissions", unit: "packets", note: "Since the reading before, about one second." },
};

const SERIES: readonly [string, string][] = [
  ["sent_mbps", "goodput/sent"], ["received_mbps", "goodput/received"], ["rtt_ms", "rtt/smoothed"], ["lowest_rtt_ms", "rtt/lowest"],
  ["cwnd_packets", "window/congestion window"], ["retransmitted", "retransmissions/retransmitted"],
];

export class Connections {
  readonly element = element("section", { id: "connections", "aria-label": "Connections" });
  private readonly address = new Address();
  private readonly search = element("input", { type: "search", id: "connections-search", placeholder: "Words: an address, a port, a process, a limit", "aria-label": "Search connections" });
  private readonly summary = element("p", { class: "small", role: "status" });
  private readonly note = element("p", { class: "note", role: "alert", hidden: "" });
  private readonly body = element("tbody");
  private readonly head = new Head(COLUMNS, this.address, "sort", () => void this.refresh());
  private readonly chosen = element("section", { class: "chosen-connection", hidden: "", "aria-label": "The chosen connection" });
  private readonly pauseButton = element("button", { type: "button", "aria-pressed": "false" }, "Pause");
  private readonly verdict = element("p", { class: "verdict-line" });
  private state: State | null = null;
  private verdicts: Record<string, string> = {};
  private plots: Plots | null = null;
  private isPaused = false;
  private asked = 0;
  private known = new Map<string, HTMLTableRowElement>();

  start(): void {
    this.search.value = this.address.get("q");
    this.search.addEventListener("input", () => {
      this.address.set("q", this.search.value);
      void this.refresh();
    });
    this.pauseButton.addEventListener("click", () => this.pause());
    const table = element("table", {}, element("thead", {}, this.head.element), this.body);
    const box = element("div", { class: "scroll wide tall", tabindex: 0, role: "region", "aria-label": "Table of connections" }, table);
    const controls = element("div", { class: "watch-controls" }, this.search, this.pauseButton);
    this.element.replaceChildren(element("h2", {}, "Connections of this host"), controls, this.summary, this.note, box, this.chosen);
    onThemeChange(() => this.plots?.redraw());
    listen<State & { problem?: string }>("watch/connections", (state) => this.heard(state), () => void this.again(), (isThere) => {
      if (!isThere) this.say("The server does not answer. This page tries again by itself; what is shown is old.");
    });
    if (this.address.get("open")) this.openCharts();
    void this.again();
  }

  keys(): Key[] {
    return [
      { key: "/", words: "Search connections", act: () => this.search.focus() },
      { key: "j", words: "Next connection", act: () => this.move(1) },
      { key: "k", words: "Connection before", act: () => this.move(-1) },
      { key: "p", words: "Pause, or go on", act: () => this.pause() },
      { key: "c", words: "Close the charts of the connection", act: () => this.closeCharts(), when: () => this.plots !== null },
    ];
  }

  // Everything is asked for: at the beginning, and when events were lost.
  private async again(): Promise<void> {
    await this.refresh();
    if (this.plots) await this.readHistory();
  }

  private async refresh(): Promise<void> {
    this.asked += 1;
    const mine = this.asked;
    try {
      const answer = await ask<Answer>("GET", `/api/watch/connections${query({ q: this.search.value, sort: this.head.sort })}`);
      this.verdicts = answer.verdicts;
      if (mine === this.asked) this.show(answer);
    } catch (reason) {
      if (mine === this.asked) this.say(messageOf(reason));
    }
  }

  private heard(state: State & { problem?: string }): void {
    if (state.problem) {
      this.say(state.problem);
      return;
    }
    this.addPoints(state);
    if (this.isPaused) return;
    // Not all connections are in an event of very many: the server searches and sorts them.
    if (state.total > state.rows.length && (this.search.value || this.head.sort)) void this.refresh();
    else this.show(state);
  }

  private show(state: State): void {
    this.note.hidden = true;
    this.state = state;
    const all = rowsOf(state);
    const rows = sorted(all.filter((row) => matches(row, this.search.value)), this.head.sort);
    this.drawRows(rows);
    this.summary.textContent = summaryOf(state, rows.length, this.search.value !== "");
    this.drawVerdict(all);
  }

  // Rows stay the same elements, so that the focus stays where it is.
  private drawRows(rows: readonly Row[]): void {
    const known = new Map<string, HTMLTableRowElement>();
    const focused = document.activeElement;
    rows.forEach((row, at) => {
      const key = keyOf(row);
      const made = this.known.get(key) ?? this.rowOf(row);
      known.set(key, made);
      this.fill(made, row, key);
      if (this.body.children[at] !== made) this.body.insertBefore(made, this.body.children[at] ?? null);
    });
    [...this.body.children].slice(rows.length).forEach((old) => old.remove());
    if (rows.length === 0) this.body.replaceChildren(element("tr", {}, element("td", { colspan: COLUMNS.length }, this.search.value ? "No connection has these words." : "This host has no TCP connection.")));
    this.known = known;
    if (focused instanceof HTMLElement && this.body.contains(focused)) focused.focus({ preventScroll: true });
  }

  private rowOf(row: Row): HTMLTableRowElement {
    const button = element("button", { type: "button", class: "plain link" }, String(row["local"]));
    button.addEventListener("click", () => {
      this.address.set("open", keyOf(row));
      this.openCharts();
      this.chosen.scrollIntoView({ block: "nearest" });
      void this.readHistory();
    });
    const first = element("th", { scope: "row" }, button);
    const cells = COLUMNS.slice(1).map(({ digits }) => element("td", digits === undefined ? {} : { class: "number" }));
    return element("tr", {}, first, ...cells);
  }

  private fill(made: HTMLTableRowElement, row: Row, key: string): void {
    made.classList.toggle("chosen", key === this.address.get("open"));
    COLUMNS.slice(1).forEach((column, at) => {
      const cell = made.cells[at + 1];
      if (!cell) return;
      const words = element("span", {}, inWords(row, column)).textContent ?? "";
      if (cell.textContent !== words) cell.textContent = words;
      if (column.name === "limit") cell.title = this.verdicts[String(row["limit"])] ?? "";
    });
  }

  private move(by: number): void {
    const buttons = [...this.body.querySelectorAll<HTMLElement>("button")];
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    buttons[at < 0 ? (by > 0 ? 0 : buttons.length - 1) : Math.min(Math.max(at + by, 0), buttons.length - 1)]?.focus();
  }

  private pause(): void {
    this.isPaused = !this.isPaused;
    this.pauseButton.textContent = this.isPaused ? "Go on" : "Pause";
    this.pauseButton.setAttribute("aria-pressed", String(this.isPaused));
    if (!this.isPaused) void this.refresh();
  }

  // --- one connection over time ---

  private openCharts(): void {
    this.plots?.destroy();
    this.plots = new Plots(CHARTS);
    const close = element("button", { type: "button" }, "Close the charts");
    close.addEventListener("click", () => this.closeCharts());
    this.chosen.replaceChildren(element("h2", {}, this.address.get("open")), this.verdict, close, this.plots.element);
    this.chosen.hidden = false;
    this.drawVerdict(this.state ? rowsOf(this.state) : []);
  }

  private closeCharts(): void {
    const key = this.address.get("open");
    this.plots?.destroy();
    this.plots = null;
    this.chosen.hidden = true;
    this.address.set("open", "");
    const row = this.known.get(key);
    row?.classList.remove("chosen");
    row?.querySelector("button")?.focus();
  }

  private async readHistory(): Promise<void> {
    const key = this.address.get("open");
    const [local = "", remote = ""] = key.split(" > ");
    try {
      const { series } = await ask<{ series: Record<string, [number, number][]> }>("GET", `/api/watch/history${query({ local, remote })}`);
      if (key === this.address.get("open")) this.plots?.add(renamed(series));
    } catch (reason) {
      this.say(messageOf(reason));
    }
  }

  private addPoints(state: State): void {
    if (!this.plots) return;
    const row = rowsOf(state).find((one) => keyOf(one) === this.address.get("open"));
    if (row) {
      const series: Record<string, [number, number][]> = {};
      for (const [name] of SERIES) if (typeof row[name] === "number") series[name] = [[state.time_s, row[name]]];
      this.plots.add(renamed(series));
    } else if (state.total > state.rows.length) void this.readHistory();
  }

  private drawVerdict(rows: readonly Row[]): void {
    if (!this.plots) return;
    const row = rows.find((one) => keyOf(one) === this.address.get("open"));
    const words = row ? `Limited by: ${String(row["limit"])}. ${this.verdicts[String(row["limit"])] ?? ""}` : "This connection is not among those listed: it has ended, or the search hides it.";
    if (this.verdict.textContent !== words) this.verdict.textContent = words;
  }

  private say(words: string): void {
    this.note.textContent = words;
    this.note.hidden = false;
  }
}

function renamed(series: Record<string, [number, number][]>): Record<string, [number, number][]> {
  return Object.fromEntries(SERIES.flatMap(([name, of]) => (series[name] ? [[of, series[name]]] : [])));
}

function keyOf(row: Row): string {
  return `${String(row["local"])} > ${String(row["remote"])}`;
}

function inWords(row: Row, { name, digits }: Column): string {
  const value = row[name];
  if (value === null || value === undefined) return "–";
  if (name === "process") return `${String(value)} ${String(row["pid"] ?? "")}`;
  if (name === "limit" && row["state"] !== "established") return `${String(value)}, ${String(row["state"])}`;
  if (name === "retransmitted_in_all") return `${count(Number(value))}${row["retransmitted"] ? ` (+${count(Number(row["retransmitted"]))})` : ""}`;
  return typeof value === "number" && digits !== undefined ? (digits ? String(Number(value.toPrecision(digits))) : count(value)) : String(value);
}

export function summaryOf(state: State, shown: number, isSearched: boolean): string {
  const parts = [plural(state.total, "connection")];
  if (isSearched) parts.push(`${count(Math.max(state.found < state.total ? state.found : shown, shown))} found`);
  const hidden = (isSearched && state.found < state.total ? state.found : isSearched ? shown : state.total) - shown;
  if (hidden > 0) parts.push(`${count(hidden)} of them not listed: search, or sort them`);
  if (!isSearched) parts.push(`limited by: ${state.limits.map(([limit, number]) => `${count(number)} ${limit}`).join(", ")}`);
  return [parts.join("; "), ...state.warnings].join(". ") + ".";
}
