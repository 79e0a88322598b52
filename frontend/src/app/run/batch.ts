// Batches: choose a file, see its runs and their time, start, follow, stop, resume.

import { element } from "../../figures/element";
import { keys } from "../keyboard";
import { ask, Failure, listen, messageOf, query, type Job } from "../server";
import { duration, plural } from "../words";
import { BatchLive } from "./batch_live";
import { ENDED } from "./following";
import type { Points } from "./plots";

interface File {
  path: string;
  batches: string[];
  problem: string;
}

interface Run {
  key: string;
  batch: string;
  arguments: string[];
  repetition: number;
  test: string | null;
  title: string;
  hosts: string[];
  takes_s: number;
}

interface Plan {
  runs: Run[];
  total_s: number;
  seed: number | null;
  left: number;
  notes: string[];
  refused: string;
}

interface Outcome {
  number: number;
  key: string;
  title: string;
  status: string;
  recording: string | null;
  entry: string | null;
  message: string;
  warnings: string[];
}

interface Progress {
  count?: number;
  before?: number;
  number?: number;
  key?: string;
  title?: string;
  elapsed_s?: number;
  takes_s?: number;
  left_s?: number;
  pause_s?: number | null;
  outcomes?: number;
  failed?: number;
  notes?: string[];
  // Counts the events with points; and series of the run at hand that have no room in the charts.
  points?: number;
  left_out?: number;
}

export type BatchJob = Omit<Job, "progress"> & { progress: Progress; series?: Points };

// Rows of the plan that are shown; a batch may have a hundred thousand.
const MOST_ROWS = 500;

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

function note(role: "alert" | "status"): HTMLElement {
  return element("p", { class: "note", role, hidden: "" });
}

function say(place: HTMLElement, words: string): void {
  place.textContent = words;
  place.hidden = words === "";
}

function table(label: string, titles: readonly string[], rows: readonly (string | Node)[][]): HTMLElement {
  const head = element("thead", {}, element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title))));
  const body = element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell)))));
  return element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, element("table", {}, head, body));
}

// --- choose, plan, start ---

export class Batches {
  private readonly file = element("select", { id: "file" });
  private readonly order = element("select", { id: "order" },
    element("option", { value: "" }, "as the file says"), element("option", { value: "yes" }, "random"), element("option", { value: "no" }, "as they are in the file"));
  private readonly stopOnFailure = element("input", { type: "checkbox", id: "stop-on-failure" });
  private readonly beside = element("input", { type: "checkbox", id: "beside" });
  private readonly plan = element("section", { "aria-label": "Plan" });
  private readonly buttons = element("p", { class: "links" });
  private readonly problem = note("alert");
  private readonly running = element("div", { class: "note", role: "status", hidden: "" });
  private number = 0;

  constructor(view: HTMLElement, private readonly given: URLSearchParams) {
    view.replaceChildren(
      element("h1", {}, "Batches"),
      element("p", {}, "A batch file describes many runs: all combinations of its arguments, repeated, in random order. Put it into one of the folders of this page."),
      row("Batch file", this.file), row("Order of the runs", this.order), row("Stop at the first run that fails", this.stopOnFailure),
      this.running, this.problem, this.buttons, this.plan,
      element("p", {}, element("a", { href: "/run" }, "Run one test")));
    this.file.addEventListener("change", () => void this.show());
    this.order.addEventListener("change", () => void this.show());
    keys([
      { key: "f", words: "Choose a batch file", act: () => this.file.focus() },
      { key: "r", words: "Start, or resume", act: () => this.buttons.querySelector("button")?.click() },
      { key: "t", words: "Go to a single test", act: () => { location.href = "/run"; } },
    ]);
  }

  async begin(): Promise<void> {
    const [{ files }, { jobs }] = await Promise.all([
      ask<{ files: File[] }>("GET", "/api/batch-files"), ask<{ jobs: BatchJob[] }>("GET", "/api/batches"),
    ]);
    const running = jobs.filter(({ state }) => !ENDED.has(state));
    this.running.hidden = running.length === 0;
    this.running.replaceChildren(...running.map((job) => element("p", {}, element("a", { href: `/run${query({ batch: job.id })}` }, nameOf(String(job.about["file"]))), ` is running. ${progressInWords(job)}`)));
    for (const { path, batches, problem } of files) this.file.append(element("option", { value: path }, `${nameOf(path)}${problem ? ` (${problem})` : batches.length ? `: ${batches.join(", ")}` : ""}`));
    if (files.length === 0) {
      say(this.problem, "There is no batch file in the folders of this page. `whydrop batch convert` makes one of Flent's; docs/batches.md describes the format.");
      return;
    }
    this.file.value = this.given.get("file") ?? files[0]?.path ?? "";
    this.order.value = this.given.get("order") ?? "";
    await this.show();
  }

  private wanted(): Record<string, unknown> {
    return { file: this.file.value, ...(this.order.value ? { shuffle: this.order.value === "yes" } : {}) };
  }

  private async show(): Promise<void> {
    const number = ++this.number;
    history.replaceState(null, "", `/run${query({ view: "batches", file: this.file.value, order: this.order.value })}`);
    say(this.problem, "");
    try {
      const plan = await ask<Plan>("POST", "/api/batches/plan", this.wanted());
      if (number === this.number) this.showPlan(plan);
    } catch (reason) {
      if (number !== this.number) return;
      this.plan.replaceChildren();
      this.buttons.replaceChildren();
      say(this.problem, messageOf(reason));
    }
  }

  private showPlan(plan: Plan): void {
    const order = plan.seed === null ? "in the order of the file" : `in random order by seed ${plan.seed}`;
    const rows = plan.runs.slice(0, MOST_ROWS).map((one, at) => [
      String(at + 1), one.batch, one.arguments.join(", "), String(one.repetition), one.test ?? "(command)", one.hosts.join(", "), duration(one.takes_s), one.title,
    ]);
    this.plan.replaceChildren(
      element("h2", {}, `${plural(plan.runs.length, "run")}, ${duration(plan.total_s)} in all, ${order}`),
      ...plan.notes.map((words) => element("p", { class: "small" }, words)),
      ...(plan.left ? [element("p", {}, `An earlier call has left ${plural(plan.left, "run")} to do. Resume continues with its choices and its order; runs that are complete are not run again.`)] : []),
      table("Runs of the batch", ["#", "Batch", "With", "Repetition", "Test", "Far ends", "Takes", "Title"], rows),
      ...(plan.runs.length > MOST_ROWS ? [element("p", { class: "small" }, `The first ${MOST_ROWS} of them are shown.`)] : []));
    say(this.problem, plan.refused);
    this.buttons.replaceChildren(...(plan.refused ? [] : plan.left
      ? [this.button("Resume", { resume: true }, true), this.button("Start again", { restart: true }, false)]
      : [this.button("Start", {}, true)]));
  }

  private button(words: string, how: Record<string, boolean>, isFirst: boolean): HTMLElement {
    const button = element("button", { type: "button", ...(isFirst ? { class: "primary" } : {}) }, words);
    button.addEventListener("click", () => void this.start(button, how));
    return button;
  }

  private async start(button: HTMLButtonElement, how: Record<string, boolean>): Promise<void> {
    button.disabled = true;
    try {
      // What an earlier call chose holds where it is resumed.
      const wanted = how["resume"] ? { file: this.file.value } : this.wanted();
      const job = await ask<BatchJob>("POST", "/api/batches", { ...wanted, ...how, stop_on_failure: this.stopOnFailure.checked, beside: this.beside.checked });
      location.href = `/run${query({ batch: job.id })}`;
    } catch (reason) {
      button.disabled = false;
      say(this.problem, messageOf(reason));
      if (reason instanceof Failure && reason.status === 409 && !this.beside.isConnected) this.problem.after(element("p", {}, element("label", { for: "beside" }, this.beside, " Run beside it all the same")));
    }
  }
}

function row(label: string, input: HTMLElement): HTMLElement {
  return element("div", { class: "field" }, element("label", { for: input.id }, label), element("div", { class: "value" }, input));
}

// --- follow ---

// How far a batch is, in words.
export function progressInWords(job: BatchJob): string {
  const { count = 0, number = 0, left_s: left, pause_s: pause, outcomes = 0, before = 0, failed = 0 } = job.progress;
  if (job.state === "complete") return `All ${plural(count, "run")} are complete.`;
  if (ENDED.has(job.state)) {
    const undone = Math.max(0, count - before - outcomes);
    return `${job.state === "interrupted" ? "Stopped" : failed ? `Ended; ${plural(failed, "run")} failed` : "Failed"}${undone ? `; ${plural(undone, "run")} not begun` : ""}.`;
  }
  if (!count) return "Reading the file.";
  const time = left === undefined ? "" : `, ${duration(Math.ceil(left))} left`;
  return pause ? `Pause of ${duration(pause)} behind run ${number} of ${count}${time}.` : number ? `Run ${number} of ${count}${time}.` : `${plural(count, "run")}${time}.`;
}

export class BatchFollowing {
  private readonly heading = element("h1", {}, "Batch");
  private readonly words = element("p", { class: "state" });
  // Read out by screen readers, which a count of seconds would never let finish.
  private readonly said = element("p", { role: "status", class: "visually-hidden" });
  private readonly own = element("p", { class: "small state" });
  private readonly bar = element("progress", { max: 1, "aria-label": "Share of the runs that have ended" });
  private readonly after = element("button", { type: "button" }, "Stop after this run");
  private readonly now = element("button", { type: "button" }, "Stop now");
  private readonly buttons = element("p", { class: "links" }, this.after, this.now);
  private readonly problem = note("alert");
  private readonly lost = note("alert");
  private readonly list = element("section", { "aria-label": "Results" });
  private readonly live: BatchLive;
  private outcomes: Outcome[] = [];
  private isReading = false;
  private stopListening = (): void => undefined;

  constructor(view: HTMLElement, private readonly id: string) {
    this.live = new BatchLive(`/api/batches/${id}`);
    view.replaceChildren(this.heading, this.words, this.said, this.bar, this.own, this.buttons, this.lost, this.problem, this.live.element, this.list);
    this.after.addEventListener("click", () => void this.stop(false));
    this.now.addEventListener("click", () => void this.stop(true));
    keys([
      { key: "s", words: "Stop after this run", act: () => this.after.click() },
      { key: "x", words: "Stop now; the run at hand keeps what it measured", act: () => this.now.click() },
      { key: "v", words: "Show or hide the latest values", act: () => this.live.toggleLatest() },
      { key: "b", words: "Go to batches", act: () => { location.href = "/run?view=batches"; } },
    ]);
  }

  async begin(): Promise<void> {
    this.stopListening();
    this.stopListening = listen<BatchJob>(`jobs/${this.id}`, (job) => this.show(job), () => void this.begin(), (isThere) => {
      const wasLost = !this.lost.hidden;
      // It may be another server: without an event from the one before, its answer does not show that.
      if (isThere && wasLost) void this.begin();
      say(this.lost, isThere ? "" : "The server does not answer. This page tries again by itself. If the server has ended, the batch has ended with it: start the server again and resume the batch.");
    });
    try {
      const job = await ask<BatchJob>("GET", `/api/batches/${this.id}`);
      this.show(job);
      // Without its plots the batch can be followed all the same.
      if (!ENDED.has(job.state)) void this.live.begin().catch(() => undefined);
    } catch (reason) {
      if (!(reason instanceof Failure) || reason.status !== 404) throw reason;
      this.stopListening();
      this.buttons.replaceChildren(element("a", { class: "button", href: "/run?view=batches" }, "Batches"));
      this.bar.remove();
      say(this.problem, "The server no longer knows this batch: it was started again since. Resume the batch: runs that are complete are not run again.");
    }
  }

  private show(job: BatchJob): void {
    const { count = 0, before = 0, outcomes = 0, key, title, elapsed_s: elapsed, takes_s: takes } = job.progress;
    const file = String(job.about["file"]);
    this.heading.textContent = nameOf(file);
    document.title = `${nameOf(file)}: ${progressInWords(job)} – whydrop`;
    this.words.textContent = progressInWords(job);
    const { left_s: _, ...untimed } = job.progress;
    const said = progressInWords({ ...job, progress: untimed });
    if (this.said.textContent !== said) this.said.textContent = said;
    if (count) this.bar.value = (before + outcomes) / count;
    this.live.show(job);
    this.own.textContent = key && !ENDED.has(job.state) ? `${key}${title ? `: ${title}` : ""}${elapsed !== undefined && takes ? `, ${duration(Math.round(elapsed))} of about ${duration(Math.round(takes))}` : ""}` : "";
    if (outcomes > this.outcomes.length) void this.read();
    if (ENDED.has(job.state)) this.ended(job, file);
  }

  // The results that are new.
  private async read(): Promise<void> {
    if (this.isReading) return;
    this.isReading = true;
    try {
      const { outcomes } = await ask<{ outcomes: Outcome[] }>("GET", `/api/batches/${this.id}/outcomes${query({ after: String(this.outcomes.length) })}`);
      this.outcomes.push(...outcomes);
      this.showOutcomes();
    } catch (reason) {
      say(this.problem, messageOf(reason));
    } finally {
      this.isReading = false;
    }
  }

  private showOutcomes(): void {
    const failed = this.outcomes.filter(({ status }) => status === "failed");
    const rows = this.outcomes.toReversed().map((one) => [
      String(one.number), one.key, one.status, one.entry ? element("a", { href: `/open${query({ source: [one.entry] })}` }, one.title || "Open") : "", [one.message, ...one.warnings].filter((words) => words).join("; "),
    ]);
    const entries = this.outcomes.map(({ entry }) => entry).filter((entry): entry is string => entry !== null);
    this.list.replaceChildren(
      ...(failed.length ? [element("h2", {}, `${plural(failed.length, "run")} failed`), element("ul", { class: "bad" }, ...failed.map(({ key, message }) => element("li", {}, `${key}: ${message}`)))] : []),
      element("h2", {}, "Results"), table("Results of the runs", ["#", "Run", "Status", "Recording", "Remarks"], rows),
      ...(entries.length > 1 ? [element("p", {}, element("a", { class: "button", href: `/compare${query({ source: entries.slice(-50) })}` }, "Compare the recordings"))] : []));
  }

  private ended(job: BatchJob, file: string): void {
    this.stopListening();
    say(this.lost, "");
    this.bar.remove();
    if (job.problem) say(this.problem, job.problem);
    const again = job.state === "complete" ? "Batches" : "Resume or start again";
    this.buttons.replaceChildren(element("a", { class: "button", href: `/run${query({ view: "batches", file })}` }, again));
  }

  private async stop(now: boolean): Promise<void> {
    const button = now ? this.now : this.after;
    if (button.disabled || !button.isConnected) return;
    button.disabled = true;
    if (!now) button.textContent = "Stops after this run";
    try {
      await ask("POST", `/api/batches/${this.id}/stop`, { now });
    } catch (reason) {
      button.disabled = false;
      say(this.problem, messageOf(reason));
    }
  }
}
