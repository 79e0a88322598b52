// One page of the entries that were found, with the mouse and the keys that choose among them.

import { element } from "../../figures/element";
import type { Selection } from "../selection";
import { query, type Entry } from "../server";
import { columnOf, type Column } from "./columns";
import { linkOf, type State } from "./state";

interface Acts {
  onSort: (key: string, isAdded: boolean) => void;
  // To the page that is so many further.
  onPage: (by: number) => void;
}

export class Table {
  readonly element = element("div", { class: "scroll entries", tabindex: 0, role: "region", "aria-label": "Entries" });
  private entries: readonly Entry[] = [];
  private anchor = -1;
  private awaited: "first" | "last" | null = null;

  constructor(private readonly selection: Selection, private readonly acts: Acts) {}

  draw(entries: readonly Entry[], state: State, pages: number): void {
    const focused = this.current();
    const focusedId = focused < 0 ? "" : this.entries[focused]?.id;
    this.entries = entries;
    this.anchor = -1;
    const columns = state.columns.map(columnOf);
    const all = element("input", { type: "checkbox", "aria-label": "Choose all of this page" });
    all.checked = entries.length > 0 && entries.every((one) => this.selection.has(one));
    all.addEventListener("change", () => this.choose(entries, all.checked));
    const head = element("tr", {}, element("th", { scope: "col" }, all), ...columns.map((column) => this.headOf(column, state)));
    const rows = entries.map((entry, at) => this.rowOf(entry, at, columns, state));
    const body = entries.length > 0 ? rows : [element("tr", {}, element("td", { colspan: columns.length + 1 }, "Nothing is found."))];
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...body));
    this.element.replaceChildren(table, this.pager(pages, state));
    const awaited = this.awaited === "first" ? 0 : this.awaited === "last" ? entries.length - 1 : entries.findIndex((one) => one.id === focusedId);
    this.awaited = null;
    if (awaited >= 0) this.links()[awaited]?.focus();
  }

  // The entry with the focus; null if none has it.
  get entry(): Entry | null {
    return this.entries[this.current()] ?? null;
  }

  get hasFocus(): boolean {
    return document.activeElement === document.body || this.element.contains(document.activeElement);
  }

  get isInRow(): boolean {
    return this.current() >= 0;
  }

  // The focus goes some rows further, across pages; with Shift, all rows between are chosen.
  move(by: number, isRange = false): void {
    const at = this.current();
    const next = at < 0 ? (by > 0 ? 0 : this.entries.length - 1) : at + by;
    if (next < 0 || next >= this.entries.length) {
      this.awaited = by > 0 ? "first" : "last";
      this.acts.onPage(by > 0 ? 1 : -1);
      return;
    }
    if (isRange) {
      if (this.anchor < 0) this.anchor = Math.max(at, 0);
      this.chooseTo(next);
    } else this.anchor = -1;
    this.links()[next]?.focus();
  }

  toggle(): void {
    const at = this.current();
    const entry = this.entries[at];
    if (!entry) return;
    this.anchor = at;
    this.choose([entry], !this.selection.has(entry));
  }

  openEntry(): void {
    this.links()[this.current()]?.click();
  }

  redrawChoice(): void {
    this.element.querySelectorAll<HTMLInputElement>("tbody input").forEach((box, at) => {
      const entry = this.entries[at];
      box.checked = entry !== undefined && this.selection.has(entry);
      box.closest("tr")?.classList.toggle("chosen", box.checked);
    });
    const all = this.element.querySelector<HTMLInputElement>("thead input");
    if (all) all.checked = this.entries.length > 0 && this.entries.every((one) => this.selection.has(one));
  }

  private chooseTo(at: number): void {
    const [low, high] = [Math.min(this.anchor, at), Math.max(this.anchor, at)];
    this.choose(this.entries.slice(low, high + 1), true);
  }

  private choose(entries: readonly Entry[], isChosen: boolean): void {
    this.selection.setAll(entries, isChosen);
  }

  private links(): HTMLElement[] {
    return [...this.element.querySelectorAll<HTMLElement>("tbody a.entry")];
  }

  private current(): number {
    const row = document.activeElement?.closest("tbody tr");
    return row ? [...this.element.querySelectorAll("tbody tr")].indexOf(row) : -1;
  }

  private headOf(column: Column, state: State): HTMLElement {
    const at = state.sort.findIndex((one) => one.replace(/^-/, "") === column.key);
    const isDescending = state.sort[at]?.startsWith("-") ?? false;
    const sign = at < 0 ? "" : ` ${isDescending ? "▼" : "▲"}${state.sort.length > 1 ? at + 1 : ""}`;
    const button = element("button", { type: "button", class: "plain", title: "Order by it; with Shift after the others" }, `${column.title}${sign}`);
    button.addEventListener("click", (event) => this.acts.onSort(column.key, event.shiftKey));
    const sort = at < 0 ? "none" : isDescending ? "descending" : "ascending";
    return element("th", { scope: "col", "aria-sort": sort, ...(column.isNumber ? { class: "number" } : {}) }, button);
  }

  private rowOf(entry: Entry, at: number, columns: readonly Column[], state: State): HTMLElement {
    const name = entry.title || entry.name || entry.path;
    const box = element("input", { type: "checkbox", "aria-label": `Choose ${name}` });
    box.checked = this.selection.has(entry);
    box.addEventListener("click", (event) => {
      const isRange = event.shiftKey && this.anchor >= 0;
      if (isRange) this.chooseTo(at);
      else {
        this.anchor = at;
        this.choose([entry], box.checked);
      }
    });
    const linked = columns.find(({ key }) => key === "name") ?? columns[0];
    const cells = columns.map((column) => {
      const text = column.write(entry);
      if (column !== linked) return element("td", column.isNumber ? { class: "number" } : {}, text);
      const href = entry.kind === "store" ? `/browse${linkOf({ ...state, entry: entry.id, table: "", row: 0 })}` : `/open${query({ source: [entry.id] })}`;
      return element("th", { scope: "row" }, element("a", { href, class: "entry", title: entry.path }, text || entry.path));
    });
    const classes = [...(entry.problem ? ["bad"] : []), ...(box.checked ? ["chosen"] : [])].join(" ");
    return element("tr", classes ? { class: classes } : {}, element("td", {}, box), ...cells);
  }

  private pager(pages: number, state: State): HTMLElement {
    const bar = element("div", { class: "pager" });
    if (pages < 2) return bar;
    for (const [label, by] of [["First", -state.page], ["Previous", -1], ["Next", 1], ["Last", pages - 1 - state.page]] as const) {
      const button = element("button", { type: "button" }, label);
      const page = state.page + by;
      button.disabled = by === 0 || page < 0 || page >= pages;
      button.addEventListener("click", () => this.acts.onPage(by));
      bar.append(button);
    }
    return bar;
  }
}
