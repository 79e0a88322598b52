// Questions to a store: its parameters can be changed and the question asked again.

import { element } from "../figures/element";
import { problemOf, ready, showDocument } from "./document";
import { field } from "./fields";
import { keys } from "./keyboard";
import { ask, query, stores, type Entry, type Job } from "./server";
import "./study.css";

// A longer address is refused by some programs through which links are passed on.
const LONGEST_IN_LINK = 6_000;

const QUESTIONS: readonly [string, string][] = [
  ["discards", "Do discards of switches slow downloads down?"],
  ["tcp", "What limits the TCP connections?"],
  ["queues", "Which queue suits which line?"],
];

export function study(view: HTMLElement): void {
  void begin(view).catch((reason: unknown) => view.replaceChildren(element("h1", {}, "Study"), problemOf(reason)));
}

async function begin(view: HTMLElement): Promise<void> {
  const [entries, defaults] = await Promise.all([
    stores(),
    ask<{ discards: string }>("GET", "/api/studies/parameters"),
  ]);
  if (entries.length === 0) {
    view.replaceChildren(
      element("h1", {}, "Study"),
      element("p", {}, "No store in the folders of this server. ", element("code", {}, "whydrop collect"), " and ", element("code", {}, "whydrop store import"), " make one."),
    );
    return;
  }
  new Form(view, entries, defaults.discards).start();
}

class Form {
  private readonly store: HTMLSelectElement;
  private readonly question: HTMLSelectElement;
  private readonly parameters: HTMLTextAreaElement;
  private readonly first = element("input", { id: "first", type: "date" });
  private readonly last = element("input", { id: "last", type: "date" });
  private readonly sites = element("input", { id: "sites", placeholder: "ams01, lhr01; all if empty", spellcheck: "false" });
  private readonly queue = element("input", { id: "queue", placeholder: "queue", spellcheck: "false" });
  private readonly strata = element("input", { id: "strata", placeholder: "line, control, scene", spellcheck: "false" });
  private readonly baseline = element("input", { id: "baseline", placeholder: "pfifo_fast", spellcheck: "false" });
  private readonly target = element("input", { id: "target", type: "number", min: "0.1", step: "any", placeholder: "50" });
  private readonly compute = element("button", { type: "submit" }, "Compute");
  private readonly status = element("p", { role: "status" });
  private readonly bar = element("progress", { max: 1, hidden: "", "aria-label": "Computed" });
  private readonly answer = element("div", { id: "answer" });
  private running: AbortController | null = null;

  constructor(private readonly view: HTMLElement, stores: readonly Entry[], private readonly defaults: string) {
    const given = new URLSearchParams(location.search);
    this.store = element("select", { id: "store" }, ...stores.map((one) => element("option", { value: one.id }, one.path)));
    this.question = element("select", { id: "question" }, ...QUESTIONS.map(([value, words]) => element("option", { value }, words)));
    this.parameters = element("textarea", { id: "parameters", rows: 14, spellcheck: "false", wrap: "off" });
    const wanted = given.get("store");
    if (stores.some((one) => one.id === wanted)) this.store.value = wanted ?? "";
    if (QUESTIONS.some(([value]) => value === given.get("question"))) this.question.value = given.get("question") ?? "";
    this.parameters.value = given.get("parameters") ?? defaults;
    this.first.value = given.get("first") ?? "";
    this.last.value = given.get("last") ?? "";
    this.sites.value = given.get("sites") ?? "";
    for (const [name, input] of this.ofQueues()) input.value = given.get(name) ?? "";
  }

  private ofQueues(): [string, HTMLInputElement][] {
    return [["queue", this.queue], ["strata", this.strata], ["baseline", this.baseline], ["target_ms", this.target]];
  }

  start(): void {
    const reset = element("button", { type: "button" }, "Default parameters");
    const cancel = element("button", { type: "button", hidden: "" }, "Cancel");
    const ofDiscards = element(
      "details", { class: "parameters" },
      element("summary", {}, "Parameters"),
      element("label", { for: "parameters" }, "The parameters as TOML. A key that is left out has its default."),
      this.parameters,
      element("p", {}, reset),
    );
    const ofTcp = element("div", {}, field("First day (UTC)", this.first), field("Last day (UTC)", this.last), field("Sites", this.sites));
    const ofQueues = element(
      "div", {},
      field("Variable of the queue", this.queue), field("Variables of the conditions", this.strata),
      field("Queue without AQM", this.baseline), field("Delay that counts as contained (ms)", this.target),
    );
    const form = element("form", {}, field("Store", this.store), field("Question", this.question), ofDiscards, ofTcp, ofQueues, element("p", { class: "buttons" }, this.compute, cancel));
    this.view.replaceChildren(element("h1", {}, "Study"), form, this.status, this.bar, this.answer);
    const show = (): void => {
      ofDiscards.hidden = this.question.value !== "discards";
      ofTcp.hidden = this.question.value !== "tcp";
      ofQueues.hidden = this.question.value !== "queues";
    };
    this.question.addEventListener("change", show);
    show();
    reset.addEventListener("click", () => {
      this.parameters.value = this.defaults;
    });
    cancel.addEventListener("click", () => this.running?.abort());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.run(true, cancel);
    });
    keys([
      { key: "c", words: "Compute", act: () => form.requestSubmit() },
      { key: "p", words: "Show or hide the parameters", act: () => { ofDiscards.open = !ofDiscards.open; } },
    ]);
    ofDiscards.open = this.parameters.value !== this.defaults;
    // A link with a store shows its answer at once.
    if (new URLSearchParams(location.search).has("store")) void this.run(false, cancel);
  }

  private about(): Record<string, string | string[] | number | null> {
    const isOfDiscards = this.question.value === "discards";
    const isOfTcp = this.question.value === "tcp";
    return {
      question: this.question.value,
      parameters: isOfDiscards ? this.parameters.value : "",
      first: isOfTcp ? this.first.value || null : null,
      last: isOfTcp ? this.last.value || null : null,
      sites: isOfTcp ? namesIn(this.sites) : [],
      ...(this.question.value === "queues" ? this.aboutQueues() : {}),
    };
  }

  /** What differs from the defaults, which the server has. */
  private aboutQueues(): Record<string, string | string[] | number> {
    const target = this.target.valueAsNumber;
    return {
      ...(this.queue.value.trim() && { queue: this.queue.value.trim() }),
      ...(namesIn(this.strata).length > 0 && { strata: namesIn(this.strata) }),
      ...(this.baseline.value.trim() && { baseline: this.baseline.value.trim() }),
      ...(target > 0 && { target_ms: target }),
    };
  }

  private keepAddress(): void {
    const { question, parameters, first, last } = this.about() as Record<string, string | null>;
    const isLong = (parameters ?? "").length > LONGEST_IN_LINK;
    const isOfQueues = question === "queues";
    const ofQueues = Object.fromEntries(this.ofQueues().map(([name, input]) => [name, isOfQueues ? input.value : ""]));
    history.replaceState(null, "", location.pathname + query({
      store: this.store.value, question, first, last, sites: question === "tcp" ? this.sites.value : "", ...ofQueues,
      parameters: parameters === this.defaults || isLong ? "" : parameters,
    }));
  }

  private async run(again: boolean, cancel: HTMLElement): Promise<void> {
    this.running?.abort();
    const mine = new AbortController();
    this.running = mine;
    this.keepAddress();
    this.answer.replaceChildren();
    this.status.textContent = "Computing…";
    this.bar.removeAttribute("value");
    this.bar.hidden = cancel.hidden = false;
    try {
      const job = await ask<Job>("POST", "/api/studies", { store: this.store.value, ...this.about(), again }, mine.signal);
      const address = `/api/studies/${job.id}`;
      mine.signal.addEventListener("abort", () => {
        void ask("DELETE", address).catch(() => undefined);
        this.end(cancel, "Cancelled.");
      });
      await ready(address, job, (progress) => this.report(progress), mine.signal);
      this.end(cancel, "");
      await showDocument(this.answer, address);
    } catch (reason) {
      if (mine.signal.aborted) return;
      this.end(cancel, "");
      this.answer.replaceChildren(problemOf(reason));
    }
  }

  private report(progress: Job["progress"]): void {
    const { doing, done_steps: done, of_steps: of } = progress as { doing?: string; done_steps?: number; of_steps?: number };
    if (!doing || done === undefined || !of) return;
    this.bar.value = done / of;
    this.status.textContent = `Computing ${doing}: step ${Math.floor(done) + 1} of ${of}`;
  }

  private end(cancel: HTMLElement, words: string): void {
    this.status.textContent = words;
    this.bar.hidden = cancel.hidden = true;
  }
}

/** Names with commas between them. */
function namesIn(input: HTMLInputElement): string[] {
  return input.value.split(",").map((one) => one.trim()).filter((one) => one);
}
