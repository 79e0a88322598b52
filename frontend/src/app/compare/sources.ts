// The recordings of a comparison: their order, their sets, and those to be added.

import { element } from "../../figures/element";
import { problemOf } from "../document";
import { ask, query, type Found } from "../server";
import { plural } from "../words";

const SETS = [["-", "–"], ["a", "A (before)"], ["b", "B (after)"], ["x", "Axes only"]] as const;
// A list that is longer is folded.
const FOLDED_FROM = 13;
const MOST_FOUND = 8;

export interface Actions {
  // Other recordings, or another order: the identifiers, and the letter of the set of each.
  onSources: (sources: readonly string[], sets: string) => void;
  onSets: () => void;
}

export class Sources {
  readonly element: HTMLDetailsElement;
  readonly search = element("input", { id: "add", type: "search", placeholder: "before cc:cubic", spellcheck: "false", autocomplete: "off" });
  private readonly letters: string[];
  private readonly found = element("ul", { class: "found-recordings", "aria-label": "Found recordings" });
  private timer = 0;
  private asked = 0;

  constructor(
    private readonly ids: readonly string[], labels: readonly string[], sets: string, private readonly actions: Actions,
    splits: readonly { words: string; sets: string }[] = [],
  ) {
    this.letters = ids.map((_, place) => sets[place] ?? "-");
    const rows = ids.map((_, place) => this.row(place, labels[place] ?? ""));
    const head = ["Recording", "Set", "Order", ""].map((words) => element("th", { scope: "col" }, words || element("span", { class: "visually-hidden" }, "Remove")));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
    this.element = element(
      "details", { class: "sources", ...(ids.length < FOLDED_FROM ? { open: "" } : {}) },
      element("summary", {}, plural(ids.length, "recording")),
      ...(ids.length > 0 ? [element("div", { class: "scroll sources-table", tabindex: 0, role: "region", "aria-label": "Recordings" }, table)] : []),
      ...(splits.length > 0 ? [this.splitBy(splits)] : []),
      element("p", { class: "field" }, element("label", { for: "add" }, "Add a recording"), this.search),
      this.found,
    );
    this.search.addEventListener("input", () => {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => void this.find(), 150);
    });
  }

  // A letter for each recording; nothing if all are in no set.
  get sets(): string {
    return this.letters.every((letter) => letter === "-") ? "" : this.letters.join("");
  }

  get hasSets(): boolean {
    return this.letters.includes("a") && this.letters.includes("b");
  }

  // The set without recordings, where the other one has some.
  get emptySet(): string {
    const [a, b] = ["a", "b"].map((letter) => this.letters.includes(letter));
    return a === b ? "" : a ? "B" : "A";
  }

  get drawn(): number {
    return this.letters.filter((letter) => letter !== "x").length;
  }

  private row(place: number, label: string): HTMLElement {
    const set = element("select", { "aria-label": `Set of ${label}` }, ...SETS.map(([value, words]) => element("option", { value }, words)));
    set.value = this.letters[place] ?? "-";
    set.addEventListener("change", () => {
      this.letters[place] = set.value;
      this.actions.onSets();
    });
    const button = (words: string, title: string, act: () => void, isDisabled = false): HTMLElement => {
      const made = element("button", { type: "button", "aria-label": `${title}: ${label}`, title }, words);
      made.disabled = isDisabled;
      made.addEventListener("click", act);
      return made;
    };
    const last = this.ids.length - 1;
    return element(
      "tr", {},
      element("th", { scope: "row" }, label),
      element("td", {}, set),
      element("td", {}, element("span", { class: "buttons" }, button("↑", "Earlier", () => this.move(place, place - 1), place === 0), button("↓", "Later", () => this.move(place, place + 1), place === last))),
      element("td", {}, button("✕", "Remove", () => this.remove(place), last === 0)),
    );
  }

  // Sets by a key with two values.
  private splitBy(splits: readonly { words: string; sets: string }[]): HTMLElement {
    const choice = element("select", { id: "split" }, element("option", { value: "" }, "Choose a key"), ...splits.map(({ words, sets }) => element("option", { value: sets }, words)));
    choice.addEventListener("change", () => {
      if (choice.value) this.actions.onSources(this.ids, choice.value);
    });
    return element("p", { class: "field" }, element("label", { for: "split" }, "Make sets by"), choice);
  }

  private move(from: number, to: number): void {
    const order = this.ids.map((_, place) => place);
    order.splice(to, 0, ...order.splice(from, 1));
    this.take(order);
  }

  private remove(place: number): void {
    this.take(this.ids.flatMap((_, one) => (one === place ? [] : [one])));
  }

  private take(places: readonly number[]): void {
    this.actions.onSources(places.map((place) => this.ids[place] ?? ""), places.map((place) => this.letters[place] ?? "-").join(""));
  }

  private async find(): Promise<void> {
    this.asked += 1;
    const mine = this.asked;
    const words = this.search.value.trim();
    if (!words) {
      this.found.replaceChildren();
      return;
    }
    try {
      const { entries } = await ask<Found>("GET", `/api/library${query({ q: `(${words}) -kind:capture -kind:store`, limit: MOST_FOUND })}`);
      if (mine !== this.asked) return;
      const fresh = entries.filter((one) => !this.ids.includes(one.id));
      this.found.replaceChildren(...(fresh.length > 0 ? fresh.map((one) => {
        const add = element("button", { type: "button" }, `${one.title || one.name} (${one.path})`);
        add.addEventListener("click", () => this.actions.onSources([...this.ids, one.id], `${this.letters.join("")}-`));
        return element("li", {}, add);
      }) : [element("li", {}, "No other recording is found.")]));
    } catch (reason) {
      if (mine === this.asked) this.found.replaceChildren(element("li", {}, problemOf(reason)));
    }
  }
}
