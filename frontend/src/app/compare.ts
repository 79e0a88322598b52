// Recordings compared: the answer in words, sets of recordings, and plots: overlaid, side by side or combined.

import { element } from "../figures/element";
import { controls } from "../figures/figures";
import type { Ends } from "../figures/figure";
import { onThemeChange } from "../figures/theme";
import { Controls } from "./compare/controls";
import { listOf, type Context } from "./compare/options";
import { Sources } from "./compare/sources";
import { problemOf, ready } from "./document";
import { keys } from "./keyboard";
import { Remote } from "./remote";
import { ask, messageOf, query, type Job, type Values } from "./server";
import { timeLeft } from "./time_left";
import { count, plural } from "./words";
import "./compare/compare.css";

interface Plot {
  name: string;
  title: string;
  kind: string;
  combine: string;
}

interface Page {
  title: string;
  labels: string[];
  keys: string[];
  splits: { words: string; sets: string }[];
  plots: Plot[];
}

interface Words {
  answer: string;
  details: string;
}

const WORDS_AFTER_MS = 400;
const FILES = [
  ["png", "PNG"], ["svg", "SVG"], ["pdf", "PDF"], ["csv", "CSV"], ["json", "JSON"], ["html", "HTML"], ["py", "Notebook cell"],
] as const;
const ZOOMS = [["in", "Zoom in"], ["out", "Zoom out"], ["left", "←"], ["right", "→"], ["all", "Show all"]] as const;
const ZOOM_NAMES: Record<string, string> = { left: "Move to earlier times, or lower numbers", right: "Move to later times, or higher numbers" };

export function compare(view: HTMLElement): void {
  const given = new URLSearchParams(location.search);
  const sources = given.getAll("source");
  if (sources.length === 0) {
    const empty = new Sources([], [], "", { onSources: (ids) => location.assign(`/compare${query({ source: ids })}`), onSets: () => undefined });
    view.replaceChildren(
      element("h1", {}, "Compare"),
      element("p", {}, "Choose recordings in ", element("a", { href: "/browse" }, "Browse"), ", or search for them here."),
      empty.element,
    );
    keys([{ key: "a", words: "Add a recording", act: () => empty.search.focus() }]);
    return;
  }
  const words = element("p", { role: "status" }, "Reading…");
  const bar = element("progress", { max: 1, "aria-label": "Share of the recordings that are read", hidden: "" });
  view.replaceChildren(element("h1", {}, "Comparing"), words, bar);
  const begin = async (): Promise<void> => {
    const started = await ask<Job>("POST", "/api/comparisons", { source: sources });
    const address = `/api/comparisons/${started.id}`;
    await ready(address, started, (found) => {
      const { done, of } = found as { done?: number; of?: number };
      if (!done || !of) return;
      bar.hidden = false;
      bar.value = done / of;
      words.textContent = `${count(done)} of ${plural(of, "recording")} read${timeLeft(done, of)}`;
    });
    new Comparison(view, address, await ask<Page>("GET", `${address}/page`), given).start();
  };
  void begin().catch((reason: unknown) => view.replaceChildren(element("h1", {}, "Nothing to compare"), problemOf(reason)));
}

class Comparison {
  private readonly sources: Sources;
  private readonly controls: Controls;
  private readonly plot: HTMLSelectElement;
  private readonly arrange = element("select", { id: "arrange" });
  private readonly by = element("input", { id: "by", list: "list-keys", spellcheck: "false", autocomplete: "off", placeholder: "title" });
  private readonly pair = element("input", { id: "pair", list: "list-keys", spellcheck: "false", autocomplete: "off", placeholder: "batch.variables.rtt" });
  private readonly answer = element("div", { id: "answer", "aria-live": "polite" });
  private readonly details = element("div", { id: "details" });
  private readonly files = element("p", { class: "buttons" });
  private readonly save = element("details", { class: "save-plot" }, element("summary", {}, "Save all pictures, or their numbers"), this.files);
  private readonly problem = element("p", { class: "note", role: "alert", hidden: "" });
  private readonly drawing = element("p", { class: "small", role: "status" });
  private readonly section = element("section", { id: "plot-section" });
  private draws = 0;
  private readonly remote: Remote;
  private asked = 0;
  // The window of time that the reader chose in the charts.
  private window: Ends | null = null;
  private timer = 0;

  constructor(private readonly view: HTMLElement, private readonly address: string, private readonly page: Page, private readonly given: URLSearchParams) {
    this.plot = element("select", { id: "plot" }, ...page.plots.map((one) => element("option", { value: one.name }, `${one.title} (${one.name})`)));
    this.plot.value = given.get("plot") ?? page.plots[0]?.name ?? "";
    if (this.plot.selectedIndex < 0) this.plot.selectedIndex = 0;
    this.sources = new Sources(given.getAll("source"), page.labels, given.get("sets") ?? "", {
      onSources: (source, sets) => location.assign(location.pathname + query({ ...this.state(), source, sets: /[abx]/.test(sets) ? sets : "", baseline: "" })),
      onSets: () => this.changed(true),
    }, page.splits);
    this.by.value = given.getAll("by").join(", ");
    this.pair.value = given.getAll("pair").join(", ");
    const baselines = page.labels.map((label, place) => [String(place), label] as const);
    this.controls = new Controls(
      given,
      { keys: ["set", ...page.keys], panels: ["series", "recording", "set", ...page.keys] },
      { baseline: [["", "None"], ...baselines] },
      () => this.changed(false),
    );
    this.remote = new Remote(this.section, `${address}/figures`, "plot", {
      onWindow: () => this.zoomed(),
      pictures: (options) => (figure, kind, window) => `${address}/picture${query({ ...options, figure, kind, ...(window ? { time: window.join(":") } : {}) })}`,
    });
    this.window = windowOf(given.get("window"));
  }

  start(): void {
    const { page } = this;
    document.title = `${page.title} – whydrop`;
    const field = (label: string, input: HTMLElement): HTMLElement => element("span", { class: "option" }, element("label", { for: input.id }, label), input);
    const zooms = ZOOMS.map(([how, label]) => element("button", { type: "button", "data-zoom": how, "aria-label": ZOOM_NAMES[how] ?? label }, label));
    this.section.append(
      element("h2", {}, "Plot"),
      element("div", { class: "compare-bar" }, field("Plot", this.plot), field("Arrange", this.arrange), element("span", { class: "buttons", role: "group", "aria-label": "Zoom" }, ...zooms)),
      this.controls.element, this.save, this.problem, this.drawing, element("div", { class: "figures" }),
    );
    const sides = element("div", { class: "compare-bar sides" }, field("Compare groups by", this.by), field("Pair sets by", this.pair));
    const heading = page.labels.length === 1 ? page.title : `${page.labels.length} recordings compared`;
    this.view.replaceChildren(element("h1", {}, heading), this.answer, this.sources.element, ...(page.labels.length > 1 ? [sides] : []), this.section, this.details);
    controls(this.section, [], () => undefined, (how) => this.remote.zoom(how));
    onThemeChange(() => this.remote.redraw());
    for (const input of [this.plot, this.arrange]) input.addEventListener("change", () => this.changed(false));
    for (const input of [this.by, this.pair]) input.addEventListener("change", () => this.changed(true));
    this.arranged(this.given.get("arrange") ?? "");
    this.listen();
    if (page.plots.length > 0) void this.draw();
    else this.section.hidden = true;
    void this.tell();
  }

  private listen(): void {
    const step = (by: number): void => {
      const count = this.plot.options.length;
      this.plot.selectedIndex = (this.plot.selectedIndex + by + count) % count;
      this.changed(false);
    };
    const focus = (details: HTMLDetailsElement, selector: string): void => {
      details.open = true;
      details.querySelector<HTMLElement>(selector)?.focus();
    };
    keys([
      { key: "n", words: "Next plot", act: () => step(1) },
      { key: "p", words: "Previous plot", act: () => step(-1) },
      { key: "o", words: "Options of the plot", act: () => focus(this.controls.element, "summary") },
      { key: "a", words: "Add a recording", act: () => focus(this.sources.element, "#add") },
      { key: "s", words: "Save all pictures, or their numbers", act: () => focus(this.save, "a") },
      { key: "+", words: "Zoom in", act: () => this.remote.zoom("in") },
      { key: "-", words: "Zoom out", act: () => this.remote.zoom("out") },
      { key: "0", words: "Show all", act: () => this.remote.zoom("all") },
    ]);
  }

  // The arrangements that the plot can have; `wanted` is kept if it is one of them.
  private arranged(wanted: string): void {
    const kind = this.chosen?.kind ?? "";
    const several = this.sources.drawn > 1;
    const isFree = !["combine", "group_by", "panel_by", "figure_by"].some((name) => this.controls.value(name)) && !this.chosen?.combine;
    const found = [
      ["", several ? "Overlaid" : "Alone"],
      ...(several && isFree && kind === "time-series" ? [["paired", "Side by side, equal axes"]] : []),
      ...(this.sources.hasSets && !["stacked", "qq"].includes(kind) ? [["sets", "Set A and set B"]] : []),
    ] as [string, string][];
    this.arrange.replaceChildren(...found.map(([value, words]) => element("option", { value }, words)));
    this.arrange.value = found.some(([value]) => value === wanted) ? wanted : "";
    this.controls.show(this.context());
    // What depends on other options is known once these are shown.
    this.controls.show(this.context());
    this.pair.closest<HTMLElement>(".option")?.toggleAttribute("hidden", !this.sources.hasSets);
    this.by.closest<HTMLElement>(".option")?.toggleAttribute("hidden", this.sources.hasSets || this.sources.drawn < 3);
  }

  private get chosen(): Plot | undefined {
    return this.page.plots.find(({ name }) => name === this.plot.value);
  }

  private context(): Context {
    const plot = this.chosen;
    const isGrid = this.controls.value("panel_by") !== "" || this.controls.value("figure_by") !== "";
    const isGrouped = this.controls.value("combine") !== "" || this.controls.value("group_by") !== "" || this.arrange.value === "sets";
    return {
      kind: plot?.kind ?? "",
      count: this.sources.drawn,
      isGrid,
      isBySets: this.arrange.value === "sets",
      isCombined: !isGrid && (isGrouped || plot?.combine !== "" || ["line", "matrix"].includes(plot.kind)),
      hasBaseline: this.controls.value("baseline") !== "",
      isRatio: this.controls.isChecked("ratio"),
    };
  }

  private changed(isOfSides: boolean): void {
    this.arranged(this.arrange.value);
    void this.draw();
    if (isOfSides) void this.tell();
  }

  // Everything that the address holds.
  private state(): Values {
    return {
      source: this.given.getAll("source"), sets: this.sources.sets, by: listOf(this.by.value), pair: listOf(this.pair.value),
      plot: this.plot.value, arrange: this.arrange.value, window: this.window?.join(":") ?? "", ...this.controls.values(),
    };
  }

  private keepAddress(): void {
    history.replaceState(null, "", location.pathname + query(this.state()));
  }

  private zoomed(): void {
    const { window: shown, isWhole } = this.remote;
    this.window = shown && !isWhole ? [Number(shown[0].toFixed(3)), Number(shown[1].toFixed(3))] : null;
    clearTimeout(this.timer);
    // Browsers refuse addresses that change too often.
    this.timer = window.setTimeout(() => this.keepAddress(), 200);
  }

  // What is asked of the server for the picture.
  private options(): Values {
    const { legend, ...values } = this.controls.values();
    const of = this.arrange.value;
    return {
      plot: this.plot.value, sets: this.sources.sets, ...values,
      ...(of === "paired" ? { paired: "true" } : of === "sets" ? { group_by: ["set"] } : {}),
      ...(legend === undefined ? {} : { legend }),
    };
  }

  private async draw(): Promise<void> {
    this.keepAddress();
    const options = this.options();
    this.section.classList.toggle("no-legend", options["legend"] === "false");
    this.files.replaceChildren(...FILES.map(([kind, words]) => element("a", { class: "button", href: `${this.address}/picture${query({ ...options, kind })}`, download: "" }, words)));
    this.draws += 1;
    const mine = this.draws;
    // What is there at once needs no words.
    const late = window.setTimeout(() => { this.drawing.textContent = `Drawing ${plural(this.sources.drawn, "recording")}…`; }, WORDS_AFTER_MS);
    try {
      const kept = this.window;
      await this.remote.show(options);
      if (kept && this.remote.window) this.remote.setWindow(kept);
      this.problem.hidden = true;
    } catch (reason) {
      this.problem.textContent = messageOf(reason);
      this.problem.hidden = false;
    } finally {
      clearTimeout(late);
      if (mine === this.draws) this.drawing.textContent = "";
    }
  }

  private async tell(): Promise<void> {
    this.asked += 1;
    const mine = this.asked;
    const lacks = this.sources.emptySet;
    if (lacks) {
      this.answer.replaceChildren(element("p", { role: "status" }, `Set ${lacks} is empty: put a recording into it to compare the sets.`));
      this.details.replaceChildren();
      return;
    }
    this.answer.replaceChildren(element("p", { role: "status" }, "Comparing…"));
    const hasSets = this.sources.hasSets;
    const sides = { sets: this.sources.sets, group_by: hasSets ? [] : listOf(this.by.value), pair_by: hasSets ? listOf(this.pair.value) : [] };
    try {
      const words = await ask<Words>("GET", `${this.address}/words${query(sides)}`);
      if (mine !== this.asked) return;
      this.answer.replaceChildren(parsed(words.answer));
      this.details.replaceChildren(parsed(words.details));
    } catch (reason) {
      if (mine !== this.asked) return;
      this.answer.replaceChildren(problemOf(reason));
      this.details.replaceChildren();
    }
  }
}

function windowOf(text: string | null): Ends | null {
  const [low, high] = (text ?? "").split(":").map(Number);
  return low !== undefined && high !== undefined && low < high ? [low, high] : null;
}

function parsed(html: string): DocumentFragment {
  const template = document.createElement("template");
  // The server made it of escaped text (show/html.py), and the policy of the page runs no script in it.
  template.innerHTML = html;
  return template.content;
}
