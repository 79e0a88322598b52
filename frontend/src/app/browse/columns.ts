// Columns of the library's table: those of every entry, and any key of the metadata.

import { element } from "../../figures/element";
import { ask, type Entry } from "../server";
import { duration, instant, size } from "../words";
import { menuOf } from "./menu";
import { DEFAULT_COLUMNS } from "./state";

export interface Column {
  key: string;
  title: string;
  isNumber?: boolean;
  write: (entry: Entry) => string;
}

const OWN: readonly Column[] = [
  { key: "started", title: "Started (UTC)", write: (entry) => (entry.started_s === null ? "" : instant(entry.started_s)) },
  { key: "name", title: "Test or file", write: (entry) => entry.name },
  { key: "title", title: "Title", write: (entry) => entry.title },
  { key: "duration", title: "Duration", isNumber: true, write: (entry) => (entry.duration_s === null ? "" : duration(entry.duration_s)) },
  { key: "status", title: "Status", write: (entry) => entry.problem || entry.status },
  { key: "size", title: "Size", isNumber: true, write: (entry) => (entry.kind === "capture" || entry.kind === "file" ? size(entry.size_bytes) : "") },
  { key: "tags", title: "Tags", write: (entry) => entry.tags.join(", ") },
  { key: "note", title: "Note", write: (entry) => entry.note },
  { key: "kind", title: "Kind", write: (entry) => entry.kind },
  { key: "path", title: "Path", write: (entry) => entry.path },
];

export function columnOf(key: string): Column {
  return OWN.find((one) => one.key === key) ?? { key, title: key, write: (entry) => entry.values[key] ?? "" };
}

export function isOfMetadata(key: string): boolean {
  return !OWN.some((one) => one.key === key);
}

let known: Promise<Record<string, number>> | null = null;

// Keys of the metadata that the index has, each with the number of its entries.
export function knownKeys(): Promise<Record<string, number>> {
  known ??= ask<{ keys: Record<string, number> }>("GET", "/api/library/keys").then((answer) => answer.keys);
  known.catch(() => {
    known = null;
  });
  return known;
}

// New entries may have new keys.
export function forgetKeys(): void {
  known = null;
}

// The menu in which columns are added, moved and removed.
export class ColumnMenu {
  readonly element: HTMLDetailsElement;
  private readonly list = element("ul", { class: "plain-list" });
  private readonly options = element("datalist", { id: "column-keys" });

  constructor(private columns: readonly string[], private readonly onChange: (columns: string[]) => void) {
    const added = element("input", { list: "column-keys", id: "add-column", placeholder: "hosts.local.kernel.release", autocomplete: "off" });
    const form = element("form", {}, element("label", { for: "add-column" }, "Add a column: any key of the metadata"), added, this.options, element("button", {}, "Add"));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const key = added.value.trim();
      added.value = "";
      if (key && !this.columns.includes(key)) this.change([...this.columns, key]);
    });
    const usual = element("button", { type: "button" }, "Usual columns");
    usual.addEventListener("click", () => this.change([...DEFAULT_COLUMNS]));
    this.element = menuOf("Columns", this.list, form, usual);
    this.element.addEventListener("toggle", () => void this.fill());
    this.show(columns);
  }

  show(columns: readonly string[]): void {
    this.columns = columns;
    this.list.replaceChildren(...columns.map((key, at) => this.line(key, at)));
  }

  private change(columns: string[]): void {
    this.show(columns);
    this.onChange(columns);
  }

  private line(key: string, at: number): HTMLElement {
    const { title } = columnOf(key);
    const buttons = [
      ...(at > 0 ? [this.button(`${title}: one to the left`, "←", () => this.moved(at, at - 1))] : []),
      ...(at < this.columns.length - 1 ? [this.button(`${title}: one to the right`, "→", () => this.moved(at, at + 1))] : []),
      ...(this.columns.length > 1 ? [this.button(`Remove ${title}`, "✕", () => this.columns.filter((_, other) => other !== at))] : []),
    ];
    return element("li", {}, element("span", {}, title), element("span", { class: "buttons" }, ...buttons));
  }

  private button(label: string, sign: string, next: () => string[]): HTMLButtonElement {
    const made = element("button", { type: "button", "aria-label": label, title: label }, sign);
    made.addEventListener("click", () => {
      this.change(next());
      // What was pressed is gone: the focus stays in the menu.
      (this.list.querySelector<HTMLElement>(`button[aria-label="${CSS.escape(label)}"]`) ?? this.element.querySelector("summary"))?.focus();
    });
    return made;
  }

  private moved(from: number, to: number): string[] {
    const columns = [...this.columns];
    columns.splice(to, 0, ...columns.splice(from, 1));
    return columns;
  }

  private async fill(): Promise<void> {
    if (!this.element.open) return;
    const own = OWN.map(({ key, title }) => element("option", { value: key }, title));
    const keys = Object.entries(await knownKeys()).map(([key, count]) => element("option", { value: key }, `${count}`));
    this.options.replaceChildren(...own, ...keys);
  }
}
