// What is in one entry: the metadata of a recording as a tree, or the tables of a store.

import { element } from "../../figures/element";
import { ask, messageOf, query, type Entry } from "../server";
import { count, instant, plural, size } from "../words";
import { knownKeys } from "./columns";
import type { State } from "./state";

type Value = string | number | boolean | null | Value[] | { [key: string]: Value };

interface StoreTable {
  table: string;
  rows: number;
  bytes: number;
  parts: number;
  days: number;
  sites: string[];
  first_s: number | null;
  last_s: number | null;
}

interface Acts {
  // Shows a key of the metadata as a column, or no longer.
  onPin: (key: string) => void;
  onMove: () => void;
}

const MOST_ROWS = 50;
const MOST_FOUND = 200;

export class Details {
  readonly element = element("section", { class: "details", "aria-label": "Details of one entry", hidden: "", tabindex: -1 });
  private shown = "";

  constructor(private readonly state: State, private readonly acts: Acts) {}

  // Shows what the state names.
  async show(): Promise<void> {
    const wanted = [this.state.entry, this.state.table, this.state.row].join("/");
    if (wanted === this.shown) return;
    this.shown = wanted;
    this.element.hidden = !this.state.entry;
    if (!this.state.entry) return;
    this.element.replaceChildren(element("p", { role: "status" }, "Reading …"));
    let parts: (Node | string)[];
    try {
      const entry = await ask<Entry>("GET", `/api/library/${encodeURIComponent(this.state.entry)}`);
      parts = [this.headOf(entry), ...(await this.contentOf(entry))];
    } catch (reason) {
      const words = messageOf(reason);
      parts = [element("p", { class: "note", role: "alert" }, words), this.closing()];
    }
    if (wanted === this.shown) this.element.replaceChildren(...parts);
  }

  redrawPins(): void {
    this.element.querySelectorAll<HTMLButtonElement>("button[data-key]").forEach((button) => {
      button.setAttribute("aria-pressed", String(this.state.columns.includes(button.dataset["key"] ?? "")));
    });
  }

  private headOf(entry: Entry): HTMLElement {
    return element("header", {}, element("h2", {}, entry.title || entry.name || entry.path), element("p", { class: "small" }, entry.path), this.closing());
  }

  private closing(): HTMLElement {
    const close = element("button", { type: "button" }, "Close");
    close.addEventListener("click", () => {
      this.go({ entry: "", table: "", row: 0 });
    });
    return close;
  }

  private go(change: Partial<State>): void {
    Object.assign(this.state, change);
    this.acts.onMove();
    void this.show();
  }

  private async contentOf(entry: Entry): Promise<Node[]> {
    if (entry.problem) return [element("p", { class: "note" }, entry.problem)];
    if (entry.kind === "store") return this.tablesOf(entry);
    const { metadata } = await ask<{ metadata: Record<string, Value> }>("GET", `/api/library/${entry.id}/metadata`);
    if (Object.keys(metadata).length === 0) return [element("p", {}, `A ${entry.kind} has no metadata. Its name opens it.`)];
    return this.treeOf(metadata, await knownKeys());
  }

  // --- metadata ---

  private treeOf(metadata: Record<string, Value>, indexed: Record<string, number>): Node[] {
    const find = element("input", { type: "search", id: "find-key", "aria-label": "Find a key or a value of the metadata", placeholder: "Find a key or a value" });
    const tree = element("div", { class: "tree" });
    const draw = (): void => {
      const wanted = find.value.trim().toLowerCase();
      if (!wanted) {
        tree.replaceChildren(...this.branches(metadata, "", indexed));
        return;
      }
      const found = leaves(metadata, "").filter(([key, value]) => `${key} ${value}`.toLowerCase().includes(wanted));
      const lines = found.slice(0, MOST_FOUND).map(([key, value]) => this.leaf(key, key, value, indexed));
      const more = found.length > MOST_FOUND ? [element("p", { class: "small" }, `${plural(found.length - MOST_FOUND, "further key")}: type more.`)] : [];
      tree.replaceChildren(...(lines.length > 0 ? [...lines, ...more] : [element("p", {}, "Nothing is found.")]));
    };
    find.addEventListener("input", draw);
    draw();
    const help = element("p", { class: "small" }, "A pinned key is a column of the table. Keys without a pin are not in the index: settings of the kernel, and the like.");
    return [find, help, tree];
  }

  private branches(value: Value, prefix: string, indexed: Record<string, number>): Node[] {
    return children(value).map(([name, child]) => {
      const key = joined(prefix, name);
      if (isLeaf(child)) return this.leaf(key, name, written(child), indexed);
      const branch = element("details", { class: "branch" }, element("summary", {}, `${name} `, element("span", { class: "small" }, `(${children(child).length})`)));
      branch.addEventListener("toggle", () => {
        // A host has thousands of settings: they are drawn when they are looked at.
        if (branch.open && branch.childElementCount === 1) branch.append(...this.branches(child, key, indexed));
      });
      return branch;
    });
  }

  private leaf(key: string, name: string, value: string, indexed: Record<string, number>): HTMLElement {
    const line = element("div", { class: "leaf" }, element("span", { class: "name", title: key }, name), element("span", { class: "value" }, value || "–"));
    if (!(key in indexed)) return line;
    const pin = element("button", { type: "button", "data-key": key, "aria-pressed": String(this.state.columns.includes(key)), "aria-label": `Pin ${key}` }, "Pin");
    pin.addEventListener("click", () => {
      this.acts.onPin(key);
      this.redrawPins();
    });
    line.append(pin);
    return line;
  }

  // --- stores ---

  private async tablesOf(entry: Entry): Promise<Node[]> {
    const { tables } = await ask<{ tables: StoreTable[] }>("GET", `/api/library/${entry.id}/tables`);
    if (tables.length === 0) return [element("p", {}, "This store is empty.")];
    const titles = ["Table", "Rows", "Size", "Days", "From (UTC)", "To (UTC)", "Sites"];
    const lines = tables.map((one) => {
      const open = element("button", { type: "button", class: "plain link" }, one.table);
      open.addEventListener("click", () => this.go({ table: one.table, row: 0 }));
      const sites = one.sites.length > 8 ? `${one.sites.slice(0, 8).join(", ")} and more` : one.sites.join(", ");
      const cells = [count(one.rows), size(one.bytes), count(one.days), time(one.first_s), time(one.last_s), sites];
      return element("tr", {}, element("th", { scope: "row" }, open), ...cells.map((cell, at) => element("td", at < 3 ? { class: "number" } : {}, cell)));
    });
    const study = element("p", {}, element("a", { href: `/study${query({ store: entry.id })}` }, "Ask it a question (Study)"));
    return [scrolled("Tables of the store", titles, lines), study, ...(this.state.table ? await this.rowsOf(entry, tables) : [])];
  }

  private async rowsOf(entry: Entry, tables: readonly StoreTable[]): Promise<Node[]> {
    const { table, row } = this.state;
    const path = `/api/library/${entry.id}/tables/${encodeURIComponent(table)}${query({ offset: row, limit: MOST_ROWS })}`;
    const found = await ask<{ columns: string[]; rows: (string | null)[][] }>("GET", path);
    const lines = found.rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell ?? "–"))));
    const all = tables.find((one) => one.table === table)?.rows ?? 0;
    const pager = element("div", { class: "pager" });
    for (const [label, next] of [["Previous rows", row - MOST_ROWS], ["Next rows", row + MOST_ROWS]] as const) {
      const button = element("button", { type: "button" }, label);
      button.disabled = next < 0 || next >= all;
      button.addEventListener("click", () => this.go({ row: next }));
      pager.append(button);
    }
    const title = `${table}: rows ${count(Math.min(row + 1, all))} to ${count(row + found.rows.length)} of ${count(all)}`;
    return [element("h3", {}, title), scrolled(`Rows of ${table}`, found.columns, lines), pager];
  }
}

function scrolled(label: string, titles: readonly string[], lines: readonly Node[]): HTMLElement {
  const head = element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title)));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines));
  return element("div", { class: "scroll wide", tabindex: 0, role: "region", "aria-label": label }, table);
}

function time(seconds: number | null): string {
  return seconds === null ? "" : instant(seconds);
}

// As the index names them: whydrop.recording.comparing.metadata_difference.flattened.
function joined(prefix: string, name: string): string {
  return prefix && !name.startsWith("[") ? `${prefix}.${name}` : prefix + name;
}

function children(value: Value): [string, Value][] {
  if (Array.isArray(value)) return value.map((one, at) => [`[${at}]`, one]);
  return value !== null && typeof value === "object" ? Object.entries(value) : [];
}

function isLeaf(value: Value): boolean {
  if (Array.isArray(value)) return value.every((one) => one === null || typeof one !== "object");
  return value === null || typeof value !== "object";
}

function written(value: Value): string {
  return Array.isArray(value) ? value.map(String).join(", ") : value === null ? "" : String(value);
}

export function leaves(value: Value, prefix: string): [string, string][] {
  return children(value).flatMap(([name, child]): [string, string][] => {
    const key = joined(prefix, name);
    return isLeaf(child) ? [[key, written(child)]] : leaves(child, key);
  });
}
