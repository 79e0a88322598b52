// What is chosen in the library: its differences, its tags and notes, and what can be done with it.

import { element } from "../figures/element";
import { Marks, MarksOfMany } from "./browse/marks";
import { ask, messageOf, query, type Entry } from "./server";
import { plural } from "./words";

type Differences = { differences: [string, (string | null)[]][] };

// The limits of the server.
const MOST_EXPLAINED = 50;
const MOST_COMPARED = 100;
const MOST_DIFFERENCES = 50;
const MOST_DOWNLOADED = 1000;

interface Acts {
  onMarked: () => void;
  onChosen: () => void;
  onDetails: (entry: Entry) => void;
}

export class Selection {
  readonly element = element("section", { class: "selection", "aria-label": "Chosen entries", hidden: "" });
  // Of very many, only the identifiers are known.
  private readonly chosen = new Map<string, Entry | null>();
  private asked = 0;

  constructor(private readonly acts: Acts) {}

  has(entry: Entry): boolean {
    return this.chosen.has(entry.id);
  }

  setAll(entries: readonly Entry[], isChosen: boolean): void {
    for (const entry of entries) {
      if (isChosen) this.chosen.set(entry.id, entry);
      else this.chosen.delete(entry.id);
    }
    void this.draw();
    this.acts.onChosen();
  }

  setIds(ids: readonly string[]): void {
    for (const id of ids) if (!this.chosen.has(id)) this.chosen.set(id, null);
    void this.draw();
    this.acts.onChosen();
  }

  clear(): void {
    this.chosen.clear();
    void this.draw();
    this.acts.onChosen();
  }

  get ids(): string[] {
    return [...this.chosen.keys()];
  }

  // The address of a view of what is chosen; null if it cannot show it.
  get explained(): string | null {
    return this.ids.length > 0 && this.ids.length <= MOST_EXPLAINED && this.every((one) => one.kind !== "store") ? `/open${query({ source: this.ids })}` : null;
  }

  get compared(): string | null {
    const isMeasured = this.every((one) => one.kind === "recording" || one.kind === "file");
    return this.ids.length > 0 && this.ids.length <= MOST_COMPARED && isMeasured ? `/compare${query({ source: this.ids })}` : null;
  }

  private every(test: (entry: Entry) => boolean): boolean {
    return [...this.chosen.values()].every((one) => one === null || test(one));
  }

  private async draw(): Promise<void> {
    const { ids } = this;
    this.asked += 1;
    this.element.hidden = ids.length === 0;
    if (ids.length === 0) return;
    const entries = [...this.chosen.values()].filter((one) => one !== null);
    const [first] = entries;
    const below = element("div");
    const heading = element("h2", {}, `${plural(ids.length, "entry", "entries")} chosen`);
    const marks = ids.length === 1 && first
      ? new Marks(first, (marked) => {
          this.chosen.set(marked.id, marked);
          this.acts.onMarked();
        }).element
      : new MarksOfMany(ids, this.acts.onMarked).element;
    const head = element("div", { class: "chosen-head" }, heading, this.buttons(ids, first));
    const isOpen = this.element.querySelector<HTMLDetailsElement>("details.many")?.open ?? false;
    const words = ids.length === 1 ? "Tags and note" : "Tags and notes of all";
    const form = element("details", { class: ids.length === 1 ? "marks" : "marks many", ...(isOpen || ids.length === 1 ? { open: "" } : {}) }, element("summary", {}, words), marks);
    this.element.replaceChildren(head, form, below);
    if (ids.length > 1) await this.showDifferences(entries, below);
  }

  private buttons(ids: readonly string[], first: Entry | undefined): HTMLElement {
    const buttons: HTMLElement[] = [];
    if (this.explained) buttons.push(element("a", { class: "button", href: this.explained }, "Explain"));
    if (this.compared) buttons.push(element("a", { class: "button", href: this.compared }, ids.length > 1 ? "Compare" : "Plots"));
    if (ids.length <= MOST_DOWNLOADED) {
      const href = `/api/library/download${query({ source: ids })}`;
      buttons.push(element("a", { class: "button", href, download: "" }, "Download as one file"));
    }
    if (ids.length === 1 && first) {
      const details = element("button", { type: "button" }, "Details");
      details.addEventListener("click", () => this.acts.onDetails(first));
      buttons.push(details);
    }
    const none = element("button", { type: "button" }, "Choose none");
    none.addEventListener("click", () => this.clear());
    return element("p", { class: "buttons" }, ...buttons, none);
  }

  private async showDifferences(entries: readonly Entry[], below: HTMLElement): Promise<void> {
    const mine = this.asked;
    const shown = entries.filter((one) => one.kind === "recording" || one.kind === "file").slice(0, MOST_DIFFERENCES);
    if (shown.length < 2) return;
    const note = shown.length < this.ids.length ? [element("p", { class: "small" }, `Differences in the metadata of ${shown.length} of the chosen entries.`)] : [];
    try {
      const { differences } = await ask<Differences>("GET", `/api/library/differences${query({ source: shown.map(({ id }) => id) })}`);
      if (mine !== this.asked) return;
      below.append(...note, differences.length > 0 ? tableOf(shown, differences) : element("p", {}, "Their metadata are the same."));
    } catch (reason) {
      if (mine === this.asked) below.append(element("p", { class: "note", role: "alert" }, messageOf(reason)));
    }
  }
}

function tableOf(entries: readonly Entry[], differences: readonly [string, (string | null)[]][]): HTMLElement {
  const head = element("tr", {}, element("th", { scope: "col" }, "Differs"), ...entries.map((one) => element("th", { scope: "col" }, one.title || one.name || one.path)));
  const rows = differences.map(([key, values]) => element("tr", {}, element("th", { scope: "row" }, key), ...values.map((value) => element("td", {}, value ?? "–"))));
  const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
  return element("div", { class: "scroll differences", tabindex: 0, role: "region", "aria-label": "Differences of the metadata" }, table);
}
