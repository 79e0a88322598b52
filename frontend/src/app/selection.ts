// What is chosen in the library: its differences, its tags and notes, and what can be done with it.

import { element } from "../figures/element";
import { ask, query, type Entry } from "./server";
import { plural } from "./words";

type Differences = { differences: [string, (string | null)[]][] };

export class Selection {
  readonly element = element("section", { class: "selection", "aria-label": "Chosen entries", hidden: "" });
  private readonly chosen = new Map<string, Entry>();
  private asked = 0;

  constructor(private readonly onMarked: () => void) {}

  has(entry: Entry): boolean {
    return this.chosen.has(entry.id);
  }

  set(entry: Entry, isChosen: boolean): void {
    if (isChosen) this.chosen.set(entry.id, entry);
    else this.chosen.delete(entry.id);
    void this.draw();
  }

  clear(): void {
    this.chosen.clear();
    void this.draw();
  }

  get ids(): string[] {
    return [...this.chosen.keys()];
  }

  private async draw(): Promise<void> {
    const entries = [...this.chosen.values()];
    this.element.hidden = entries.length === 0;
    const [first] = entries;
    if (!first) return;
    const heading = element("h2", {}, `${plural(entries.length, "entry", "entries")} chosen`);
    const open = element("a", { class: "button", href: `/open${query({ source: this.ids })}` }, "Explain");
    const below = element("div");
    const compare = element("a", { class: "button", href: `/compare${query({ source: this.ids })}` }, entries.length > 1 ? "Compare" : "Plots");
    const isMeasured = entries.every((one) => one.kind === "recording" || one.kind === "file");
    this.element.replaceChildren(heading, element("p", { class: "buttons" }, open, ...(isMeasured ? [compare] : [])), below);
    if (entries.length === 1) below.append(this.marksOf(first));
    else await this.showDifferences(entries, below);
  }

  private marksOf(entry: Entry): HTMLElement {
    const tags = element("input", { id: "tags", value: entry.tags.join(", ") });
    const note = element("input", { id: "note", value: entry.note, maxlength: 10_000 });
    const save = element("button", { type: "submit" }, "Save");
    const field = (label: string, input: HTMLElement): HTMLElement => element("p", { class: "field" }, element("label", { for: input.id }, label), input);
    const form = element("form", {}, field("Tags, with commas between", tags), field("Note", note), save);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const marks = { tags: tags.value.split(",").map((tag) => tag.trim()).filter((tag) => tag), note: note.value };
      void ask<Entry>("PUT", `/api/library/${entry.id}/marks`, marks).then((marked) => {
        this.chosen.set(marked.id, marked);
        this.onMarked();
      });
    });
    return form;
  }

  private async showDifferences(entries: readonly Entry[], below: HTMLElement): Promise<void> {
    this.asked += 1;
    const mine = this.asked;
    const { differences } = await ask<Differences>("GET", `/api/library/differences${query({ source: this.ids })}`);
    if (mine !== this.asked) return;
    const head = element("tr", {}, element("th", { scope: "col" }, "Differs"), ...entries.map((one) => element("th", { scope: "col" }, one.title || one.name)));
    const rows = differences.map(([key, values]) => element("tr", {}, element("th", { scope: "row" }, key), ...values.map((value) => element("td", {}, value ?? "–"))));
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    below.append(element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Differences of the metadata" }, table));
  }
}
