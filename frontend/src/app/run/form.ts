// The form of a test: what it does, its far ends and parameters, what it will send; then its start.

import { element } from "../../figures/element";
import { keys } from "../keyboard";
import { ask, Failure, messageOf, query, type Job } from "../server";
import { duration } from "../words";
import { progressInWords, type BatchJob } from "./batch";
import { aboutInWords, ENDED, stateInWords, type RunJob } from "./following";
import { Field, faultOf, fieldOf, type Parameter } from "./parameters";

interface Listed {
  name: string;
  title: string;
  family: string;
}

interface Described {
  test: {
    name: string;
    title: string;
    description: string | null;
    shows: string | null;
    hosts: { minimum: number; maximum: number | null };
    parameters: Record<string, Parameter>;
    total_s: number;
  };
  own: string[];
  secrets: string[];
  file: string;
  flows: string[][];
  refused: string;
}

interface Checked {
  total_s: number;
  flows: string[][];
  sends: string[];
  notes: string[];
}

const CODE_POINTS = ["BE", "LE", "CS1", "CS2", "CS3", "CS4", "CS5", "CS6", "CS7", "AF11", "AF21", "AF31", "AF41", "VA", "EF"];
const ACCESS_POINT = "access_point";
// After the last key of what is typed.
const CHECK_AFTER_MS = 400;

// The parts of the address that are texts of fields, and those that every test has beside its parameters.
const TEXTS = ["length", "runner", "title", "note", "tags"] as const;

export class Form {
  private readonly test = element("select", { id: "test" });
  private readonly to = element("input", { id: "to", autocomplete: "off", spellcheck: "false", placeholder: "server.example or 192.0.2.7:17370" });
  private readonly texts = {
    length: element("input", { id: "length", autocomplete: "off", placeholder: "as the test says" }),
    runner: element("input", { id: "runner", autocomplete: "off", spellcheck: "false", placeholder: "whydrop itself", list: "runners" }),
    title: element("input", { id: "title", maxlength: 200, autocomplete: "off" }),
    note: element("textarea", { id: "note", maxlength: 10_000, rows: 2 }),
    tags: element("input", { id: "tags", autocomplete: "off", placeholder: "wi-fi, before" }),
  };
  private readonly secret = element("input", { id: "secret", type: "password", autocomplete: "new-password", placeholder: "that of the server's $WHYDROP_SECRET" });
  private readonly redact = element("input", { id: "redact", type: "checkbox" });
  private readonly beside = element("input", { id: "beside", type: "checkbox" });
  private readonly about = element("div", { class: "about" });
  private readonly near = element("div");
  private readonly own = element("fieldset", { class: "parameters" });
  private readonly common = element("details", { class: "parameters" });
  private readonly naming = element("details", { class: "parameters" });
  private readonly plan = element("section", { class: "plan", "aria-labelledby": "plan-title" });
  private readonly running = element("div", { class: "note", role: "status", hidden: "" });
  private readonly problem = element("p", { class: "note", role: "alert", hidden: "" });
  private readonly start = element("button", { type: "submit", class: "primary" }, "Start");
  private readonly fields: Record<string, Field>;
  private parameters: Record<string, Field> = {};
  private described: Described | null = null;
  private timer = 0;
  private asked: AbortController | null = null;
  private isTouched = false;

  constructor(view: HTMLElement, private readonly given: URLSearchParams) {
    this.fields = {
      test: new Field(this.test, "Test", ""),
      to: new Field(this.to, "Far end", ""),
      duration_s: new Field(this.texts.length, "Length of the load", "0.1 s to 7 d, such as 30 s."),
      secret: new Field(this.secret, "Secret of the responder", "It is sent to the server of this page only, and is in no link, log or recording."),
      runner: new Field(this.texts.runner, "Measured by", "Programs in the place of whydrop, with their servers at the far end, such as iperf3."),
      title: new Field(this.texts.title, "Title", "Distinguishes this recording from others."),
      note: new Field(this.texts.note, "Note", "Kept with the recording."),
      tags: new Field(this.texts.tags, "Tags", "Kept in the library, separated by commas."),
      redact: new Field(this.redact, "Hide names and addresses", "Of hosts, in the recording."),
    };
    this.naming.append(element("summary", {}, "Title, note, tags, other programs"), this.field("title"), this.field("note"), this.field("tags"), this.field("redact"), this.field("runner"));
    const form = element("form", { novalidate: "", class: "run-form" }, element("div", {},
      this.field("test"), this.about, this.field("to"), this.field("duration_s"), this.near, this.field("secret"),
      this.own, this.common,
      this.naming),
      element("div", { class: "side" }, this.running, this.problem,
        element("p", { class: "links" }, this.start, element("button", { type: "button", class: "check" }, "Check"), element("a", { class: "button", href: "/run?view=batches" }, "Batches")),
        this.plan),
      list("code-points", CODE_POINTS), list("access-points", ["auto"]), list("runners", ["iperf3", "iperf2", "netperf", "nuttcp", "irtt", "stamp", "ping", "fping"]));
    view.replaceChildren(element("h1", {}, "Run a test"), form);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.submit();
    });
    form.addEventListener("input", () => this.changed());
    form.querySelector(".check")?.addEventListener("click", () => void this.check(true));
    keys([
      { key: "t", words: "Choose the test", act: () => this.test.focus() },
      { key: "f", words: "Go to the far end", act: () => this.to.focus() },
      { key: "c", words: "Check what will be sent", act: () => void this.check(true) },
      { key: "r", words: "Start the test", act: () => form.requestSubmit() },
      { key: "b", words: "Go to batches", act: () => { location.href = "/run?view=batches"; } },
    ]);
  }

  async begin(): Promise<void> {
    this.to.value = this.given.getAll("to").join(" ");
    for (const name of TEXTS) this.texts[name].value = this.given.get(name) ?? "";
    this.naming.open = TEXTS.some((name) => name !== "length" && this.texts[name].value);
    this.redact.checked = this.given.get("redact") === "yes";
    const { tests } = await ask<{ tests: Listed[] }>("GET", "/api/tests");
    const families = new Map<string, HTMLElement>();
    for (const test of tests) {
      const group = families.get(test.family) ?? element("optgroup", { label: test.family });
      families.set(test.family, group);
      group.append(element("option", { value: test.name }, `${test.name} – ${test.title}`));
    }
    this.test.append(...families.values());
    this.test.value = this.given.get("test") ?? "rrul";
    if (!this.test.value) {
      this.fields["test"]?.complain(`There is no test called ${this.given.get("test") ?? ""}.`);
      this.test.value = "rrul";
    }
    this.test.addEventListener("change", () => void this.describe().catch((reason: unknown) => this.say(messageOf(reason))));
    await Promise.all([this.describe(), this.showRunning()]);
  }

  private field(name: string): HTMLElement {
    return this.fields[name]?.element ?? element("p");
  }

  // --- the test ---

  private async describe(): Promise<void> {
    const found = await ask<Described>("GET", `/api/tests/${encodeURIComponent(this.test.value)}`);
    // Values of parameters that the test before had, too, stay.
    const before = this.values();
    this.described = found;
    const { test } = found;
    this.about.replaceChildren(
      element("p", {}, test.description ?? test.title),
      ...(test.shows ? [element("p", { class: "see" }, test.shows)] : []),
      ...(found.file ? [element("details", {}, element("summary", {}, "The file of this test"), element("pre", { tabindex: 0, "aria-label": "The file of this test" }, found.file))] : []));
    const { minimum, maximum } = test.hosts;
    const count = maximum === minimum ? String(minimum) : maximum === null ? `${minimum} or more` : `${minimum} to ${maximum}`;
    this.toHelp(maximum === 0 ? "This test needs none." : `${count}, as HOST or HOST:PORT, separated by spaces. whydrop responder runs there, or the server that the test names.`);
    this.parameters = {};
    const all = Object.keys(test.parameters);
    const own = found.own.filter((name) => !SPOKEN.has(name));
    const others = all.filter((name) => !own.includes(name) && !SPOKEN.has(name) && name !== ACCESS_POINT);
    this.near.replaceChildren(...(all.includes(ACCESS_POINT) && maximum !== 0 ? [this.accessPoint(before)] : []));
    this.own.replaceChildren(element("legend", {}, "Parameters of this test"), ...own.map((name) => this.parameter(name, before)));
    this.own.hidden = own.length === 0;
    this.common.replaceChildren(element("summary", {}, "More parameters"), ...others.map((name) => this.parameter(name, before)));
    this.common.open ||= others.some((name) => this.parameters[name]?.input.value);
    this.start.disabled = Boolean(found.refused);
    this.changed();
    await this.check(false);
  }

  private parameter(name: string, before: Record<string, string>): HTMLElement {
    const parameter = this.described?.test.parameters[name];
    if (!parameter) return element("p");
    const field = fieldOf(name, parameter, this.described?.secrets.includes(name) ?? false);
    field.input.value = before[name] ?? this.given.get(`p.${name}`) ?? "";
    this.parameters[name] = field;
    field.input.addEventListener("change", () => field.complain(faultOf(parameter, field.input.value)));
    return field.element;
  }

  // Every test has it, and it answers a question that many people have.
  private accessPoint(before: Record<string, string>): HTMLElement {
    const shown = this.parameter(ACCESS_POINT, before);
    shown.querySelector("label")?.replaceChildren("Access point");
    this.parameters[ACCESS_POINT]?.input.setAttribute("list", "access-points");
    return shown;
  }

  private toHelp(words: string): void {
    const help = this.fields["to"]?.element.querySelector(".help");
    if (help) help.textContent = words;
  }

  // --- what was typed ---

  private values(): Record<string, string> {
    return Object.fromEntries(Object.entries(this.parameters).filter(([, { input }]) => input.value.trim()).map(([name, { input }]) => [name, input.value.trim()]));
  }

  private hosts(): string[] {
    return this.to.value.split(/[\s,]+/).filter((host) => host);
  }

  private wanted(): Record<string, unknown> {
    const length = this.texts.length.value.trim();
    return {
      test: this.test.value, to: this.hosts(),
      parameters: { ...this.values(), ...(length ? { length_s: length } : {}) },
      ...(this.texts.runner.value.trim() ? { runner: this.texts.runner.value.trim() } : {}),
    };
  }

  // The address holds everything but secrets.
  private changed(): void {
    const secrets = new Set(this.described?.secrets ?? []);
    const parameters = Object.entries(this.values()).filter(([name]) => !secrets.has(name)).map(([name, value]) => [`p.${name}`, value]);
    const texts = TEXTS.map((name) => [name, this.texts[name].value.trim()]);
    history.replaceState(null, "", `/run${query({ test: this.test.value, to: this.hosts(), ...Object.fromEntries(texts), redact: this.redact.checked ? "yes" : "", ...Object.fromEntries(parameters) })}`);
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => void this.check(false), CHECK_AFTER_MS);
  }

  // --- check and start ---

  // Shows what will be sent, and every fault beside its field; a far end that nobody has typed yet is no fault.
  private async check(isAsked: boolean): Promise<boolean> {
    clearTimeout(this.timer);
    this.isTouched ||= isAsked;
    this.asked?.abort();
    this.asked = new AbortController();
    try {
      const checked = await ask<Checked>("POST", "/api/runs/check", this.wanted(), this.asked.signal);
      this.complain({});
      this.showPlan("What will be sent", checked.flows, checked.sends, checked.notes, checked.total_s);
      this.problem.hidden = true;
      return true;
    } catch (reason) {
      if (reason instanceof DOMException && reason.name === "AbortError") return false;
      const fields = reason instanceof Failure ? reason.fields : {};
      const isOnlyMissing = Object.keys(fields).length === 1 && "to" in fields && this.hosts().length === 0;
      const found = this.described;
      if (found) this.showPlan("What the test sends by default", found.flows, found.refused ? [found.refused] : [], [], found.test.total_s);
      if (isOnlyMissing && !this.isTouched) {
        this.complain({});
        return false;
      }
      this.complain(fields);
      if (isAsked) {
        this.say(messageOf(reason));
        this.focusFault();
      }
      return false;
    }
  }

  private complain(faults: Record<string, string>): void {
    const of: Record<string, string> = Object.fromEntries(Object.entries(faults).map(([name, words]) => [name.replace(/^parameters\./, ""), words]));
    if (of["length_s"]) of["duration_s"] = of["length_s"];
    for (const [name, field] of [...Object.entries(this.fields), ...Object.entries(this.parameters)]) field.complain(of[name] ?? "");
  }

  private focusFault(): void {
    const wrong = [...Object.values(this.fields), ...Object.values(this.parameters)].find((field) => field.hasFault);
    const within = wrong?.input.closest("details");
    if (within) within.open = true;
    wrong?.input.focus();
  }

  private showPlan(title: string, flows: readonly string[][], sends: readonly string[], notes: readonly string[], total: number): void {
    const [titles = [], ...rows] = flows;
    const head = element("thead", {}, element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title))));
    const body = element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell)))));
    this.plan.replaceChildren(
      element("h2", { id: "plan-title" }, title),
      element("p", {}, `The test takes ${duration(total)}.`),
      ...(sends.length ? [element("ul", {}, ...sends.map((one) => element("li", {}, one)))] : []),
      ...notes.map((note) => element("p", { class: "small" }, note)),
      ...(rows.length ? [element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Flows of the test" }, element("table", {}, head, body))] : []));
  }

  // Two tests at once disturb each other: who starts a second one is told, and asked.
  private async showRunning(): Promise<void> {
    const [{ jobs }, { jobs: batches }] = await Promise.all([
      ask<{ jobs: RunJob[] }>("GET", "/api/runs"), ask<{ jobs: BatchJob[] }>("GET", "/api/batches"),
    ]);
    const running = jobs.filter(({ state }) => !ENDED.has(state));
    const inBatches = batches.filter(({ state }) => !ENDED.has(state));
    this.running.hidden = running.length + inBatches.length === 0;
    this.running.replaceChildren(
      ...inBatches.map((job) => element("p", {}, element("a", { href: `/run${query({ batch: job.id })}` }, "A batch"), ` is running. ${progressInWords(job)}`)),
      ...running.map((job) => element("p", {}, element("a", { href: `/run${query({ id: job.id })}` }, aboutInWords(job)), ` is running. ${stateInWords(job)}.`)),
      element("p", {}, "Two tests at once share the path, and each changes what the other measures."),
      element("p", {}, element("label", { for: "beside" }, this.beside, " Run beside it all the same")));
  }

  private async submit(): Promise<void> {
    if (this.start.disabled) return;
    this.start.disabled = true;
    try {
      if (!(await this.check(true))) return;
      const job = await ask<Job>("POST", "/api/runs", {
        ...this.wanted(), title: this.texts.title.value.trim(), note: this.texts.note.value, redact: this.redact.checked,
        tags: this.texts.tags.value.split(",").map((tag) => tag.trim()).filter((tag) => tag), beside: this.beside.checked,
        ...(this.secret.value ? { secret: this.secret.value } : {}),
      });
      location.href = `/run${query({ id: job.id })}`;
    } catch (reason) {
      if (reason instanceof Failure && reason.status === 409) await this.showRunning();
      if (reason instanceof Failure) this.complain(reason.fields);
      this.say(messageOf(reason));
    } finally {
      this.start.disabled = Boolean(this.described?.refused);
    }
  }

  private say(words: string): void {
    this.problem.textContent = words;
    this.problem.hidden = false;
  }
}

// These have fields of their own above.
const SPOKEN: ReadonlySet<string> = new Set(["length_s"]);

function list(id: string, values: readonly string[]): HTMLElement {
  return element("datalist", { id }, ...values.map((value) => element("option", { value })));
}
