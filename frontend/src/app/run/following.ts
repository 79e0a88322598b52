// A run that goes on, or has ended: its state in words, its plots, and what to do next.

import { element } from "../../figures/element";
import { onThemeChange } from "../../figures/theme";
import type { LibraryStatus } from "../browse/status";
import { keys } from "../keyboard";
import { ask, Failure, listen, messageOf, query, type Found, type Job } from "../server";
import { duration, plural } from "../words";
import { latestTable, Plots, type Points } from "./plots";

interface Progress {
  elapsed_s?: number | null;
  total_s?: number;
  number?: number;
  left_out?: number;
  silent?: string[];
  recording?: string;
  entry?: string;
  failures?: string[];
  warnings?: string[];
}

export type RunJob = Omit<Job, "progress"> & { progress: Progress; series?: Points };

interface Live {
  number: number;
  series: Points;
  left_out: number;
}

const LOOK_AGAIN_MS = 300;

export const ENDED: ReadonlySet<string> = new Set(["complete", "interrupted", "failed"]);

const IN_WORDS: Record<string, string> = {
  running: "Starting", connecting: "Connecting to the far end", "describing this host": "Describing this host",
  measuring: "Measuring", finishing: "Waiting for the last packets, and writing the recording", ended: "Writing the recording",
  complete: "Complete", interrupted: "Stopped early; the recording has what was measured", failed: "Failed",
};

export function aboutInWords(job: RunJob): string {
  const to = (job.about["to"] as string[] | undefined) ?? [];
  return `${String(job.about["test"])}${to.length ? ` to ${to.join(", ")}` : ""}`;
}

// How far a run is, in words.
export function stateInWords(job: RunJob): string {
  const words = IN_WORDS[job.state] ?? job.state;
  const { elapsed_s: elapsed, total_s: total } = job.progress;
  if (ENDED.has(job.state) || elapsed === null || elapsed === undefined || !total) return words;
  const left = Math.max(0, Math.ceil(total - elapsed));
  return `${words}: ${duration(Math.round(elapsed))} of ${duration(Math.round(total))}${left ? `, ${duration(left)} left` : ""}`;
}

// What to show of events that came before all points were known: those behind these points.
export function behind(events: readonly RunJob[], number: number): RunJob[] {
  return events.filter((event) => (event.progress.number ?? 0) > number || (ENDED.has(event.state) && !event.series));
}

export class Following {
  private readonly heading = element("h1", {}, "Run");
  private readonly words = element("p", { class: "state" });
  // Read out by screen readers, which a count of seconds would never let finish.
  private readonly said = element("p", { role: "status", class: "visually-hidden" });
  private readonly bar = element("progress", { max: 1, "aria-label": "Share of the test that is done" });
  private readonly stopButton = element("button", { type: "button" }, "Stop, and keep what was measured");
  private readonly problem = element("div", { class: "note", role: "alert", hidden: "" });
  private readonly lost = element("p", { class: "note", role: "alert", hidden: "" });
  private readonly end = element("div", { class: "outcome" });
  private readonly silent = element("p", { class: "note", role: "status", hidden: "" });
  private readonly more = element("p", { class: "small", hidden: "" });
  private readonly latest = element("details", { class: "latest" }, element("summary", {}, "Latest values"));
  private plots = new Plots();
  private stopListening = (): void => undefined;
  private waiting: RunJob[] | null = [];
  private number = 0;
  private recording = "";
  private isOver = false;

  constructor(private readonly view: HTMLElement, private readonly own: string) {
    this.view.replaceChildren(this.heading, this.words, this.said, this.bar, this.stopButton, this.lost, this.problem, this.silent, this.end, this.more, this.latest, this.plots.element);
    this.stopButton.addEventListener("click", () => this.stop());
    this.latest.hidden = true;
    this.latest.addEventListener("toggle", () => this.showLatest());
    onThemeChange(() => this.plots.redraw());
    keys([
      { key: "s", words: "Stop the test, and keep what was measured", act: () => this.stop() },
      { key: "o", words: "Open the recording", act: () => this.view.querySelector<HTMLElement>("a.open")?.click() },
      { key: "v", words: "Show or hide the latest values", act: () => { this.latest.open = !this.latest.open; } },
      { key: "n", words: "Set up a new test", act: () => { location.href = "/run"; } },
    ]);
  }

  // Events are read first, and wait until all points before them are known: none is missed, none comes twice.
  async begin(): Promise<void> {
    this.stopListening();
    this.waiting = [];
    this.stopListening = listen<RunJob>(`jobs/${this.own}`, (event) => this.heard(event), () => void this.again(), (isThere) => this.connected(isThere));
    try {
      await this.readAll();
    } catch (reason) {
      await this.failed(reason);
    }
  }

  private async readAll(): Promise<void> {
    const job = await ask<RunJob>("GET", `/api/runs/${this.own}`);
    let live: Live | null = null;
    try {
      live = await ask<Live>("GET", `/api/runs/${this.own}/live`);
    } catch (reason) {
      if (!job.progress.entry) this.say(this.problem, `No points to draw: ${messageOf(reason)}`);
      else this.say(this.more, "The points of this run are no longer kept here. The recording has all of them.");
    }
    if (live) {
      this.plots.add(live.series);
      this.number = live.number;
      this.latest.hidden = Object.keys(live.series).length === 0;
    }
    this.show({ ...job, progress: { ...job.progress, left_out: live?.left_out ?? 0 } });
    const waiting = this.waiting ?? [];
    this.waiting = null;
    behind(waiting, this.number).forEach((event) => this.heard(event));
  }

  private heard(event: RunJob): void {
    if (this.waiting) {
      this.waiting.push(event);
      return;
    }
    if (event.series) {
      this.number = event.progress.number ?? this.number;
      this.plots.add(event.series);
      this.latest.hidden = false;
      if (this.latest.open) this.showLatest();
    }
    this.show(event);
  }

  // Events were lost, or the server was started again.
  private async again(): Promise<void> {
    const before = this.plots;
    this.plots = new Plots();
    before.element.replaceWith(this.plots.element);
    before.destroy();
    this.number = 0;
    await this.begin();
  }

  private connected(isThere: boolean): void {
    if (this.isOver) return;
    const wasLost = !this.lost.hidden;
    this.lost.hidden = isThere;
    if (isThere) {
      // It may be another server: without an event from the one before, its answer does not show that.
      if (wasLost) void this.again();
      return;
    }
    const kept = this.recording ? `its recording ${nameOf(this.recording)} has what was measured` : "its recording has what was measured";
    this.lost.textContent = `The server does not answer. This page tries again by itself. If the server has ended, the test has ended with it, and ${kept}.`;
    // A server that was started again elsewhere, or with another token, does not let this page in.
    void ask<RunJob>("GET", `/api/runs/${this.own}`).catch((reason: unknown) => {
      if (reason instanceof Failure && (reason.status === 401 || reason.status === 403)) {
        this.stopListening();
        this.lost.textContent = `The server was started again, and does not know this page: open the address that it prints. The test ended with the server before; ${kept}.`;
      }
    });
  }

  private show(job: RunJob): void {
    if (this.isOver) return;
    this.recording = job.progress.recording ?? this.recording;
    this.heading.textContent = aboutInWords(job);
    document.title = `${aboutInWords(job)}: ${IN_WORDS[job.state] ?? job.state} – whydrop`;
    this.words.textContent = stateInWords(job);
    const said = IN_WORDS[job.state] ?? job.state;
    if (this.said.textContent !== said) this.said.textContent = said;
    const { elapsed_s: elapsed, total_s: total, left_out: left } = job.progress;
    if (elapsed && total) this.bar.value = Math.min(1, elapsed / total);
    const { silent = [] } = job.progress;
    this.silent.hidden = silent.length === 0 || ENDED.has(job.state);
    // Said once, and not again with every event.
    const words = `${silent.join(", ")}: nothing was measured for some seconds. The far end, its server or the path may be gone; at the end of the test this page says what failed.`;
    if (!this.silent.hidden && this.silent.textContent !== words) this.silent.textContent = words;
    if (left) this.say(this.more, `${plural(left, "more series has", "more series have")} no room in the charts; the recording has all of them.`);
    // A recording has its entry in the library a moment after its end.
    if (ENDED.has(job.state) && (job.problem || job.progress.entry)) this.ended(job);
  }

  private ended(job: RunJob): void {
    const { entry, recording, failures = [], warnings = [] } = job.progress;
    // The entry of what a failed run left comes with a later event.
    this.isOver = Boolean(entry) || !recording;
    if (this.isOver) this.stopListening();
    this.stopButton.remove();
    this.bar.remove();
    this.lost.hidden = true;
    if (job.problem) this.say(this.problem, job.problem);
    const parts: Node[] = [];
    if (failures.length) parts.push(element("h2", {}, "What failed"), element("ul", { class: "bad" }, ...failures.map((one) => element("li", {}, one))));
    if (warnings.length) parts.push(element("h2", {}, "What limits this recording"), element("ul", {}, ...warnings.map((one) => element("li", {}, one))));
    if (entry) parts.push(element("p", { class: "links" }, ...this.links(entry, job)));
    else parts.push(element("p", { class: "links" }, this.setUpAgain(job)));
    this.end.replaceChildren(...parts);
    if (entry) void this.verdict(entry);
  }

  private links(entry: string, job: RunJob): Node[] {
    const open = element("a", { class: "button open", href: `/open${query({ source: [entry] })}` }, "Open the recording");
    const compare = element("a", { class: "button", href: `/compare${query({ source: [entry] })}` }, "Show its plots");
    return [open, compare, this.setUpAgain(job)];
  }

  private setUpAgain(job: RunJob): HTMLElement {
    const { test, to, duration_s: length, title } = job.about as Record<string, string | number | string[]>;
    return element("a", { class: "button", href: `/run${query({ test: test as string, to: to as string[], length: length as number, title: title as string })}` }, "Set it up again");
  }

  // The sentence that Open shows first.
  private async verdict(entry: string): Promise<void> {
    const place = element("p", { class: "verdict-line", role: "status" }, "Looking for the verdict…");
    this.end.prepend(place);
    try {
      const started = await ask<Job>("POST", "/api/analyses", { source: [entry] });
      const { title } = await ask<{ title: string }>("GET", `/api/analyses/${started.id}/page`);
      place.textContent = title;
    } catch (reason) {
      place.textContent = `No verdict: ${messageOf(reason)}`;
    }
  }

  private async failed(reason: unknown): Promise<void> {
    if (!(reason instanceof Failure) || reason.status !== 404) {
      this.say(this.problem, messageOf(reason));
      return;
    }
    this.isOver = true;
    this.stopListening();
    this.words.textContent = "The server no longer knows this run: it was started again since, or has forgotten it after many others.";
    for (const part of [this.bar, this.stopButton, this.lost, this.latest]) part.remove();
    const entry = this.recording ? await entryOf(nameOf(this.recording)) : null;
    if (entry) {
      this.say(this.problem, `What was measured is in the recording ${nameOf(this.recording)}.`);
      this.end.replaceChildren(element("p", { class: "links" }, element("a", { class: "button open", href: `/open${query({ source: [entry] })}` }, "Open the recording")));
    } else {
      this.end.replaceChildren(element("p", {}, "What was measured is in a recording of the ", element("a", { href: "/browse" }, "library"), "."));
    }
  }

  private stop(): void {
    if (this.isOver || this.stopButton.disabled) return;
    this.stopButton.disabled = true;
    this.stopButton.textContent = "Stopping…";
    ask("POST", `/api/runs/${this.own}/stop`).catch((reason: unknown) => {
      this.stopButton.disabled = false;
      this.stopButton.textContent = "Stop, and keep what was measured";
      this.say(this.problem, messageOf(reason));
    });
  }

  private showLatest(): void {
    this.latest.querySelector(".scroll")?.remove();
    this.latest.append(latestTable(this.plots));
  }

  private say(place: HTMLElement, words: string): void {
    place.textContent = words;
    place.hidden = false;
  }
}

function nameOf(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}


async function entryOf(name: string): Promise<string | null> {
  try {
    for (;;) {
      // A server that has just started lists its files little by little.
      const { has_looked: isComplete } = await ask<LibraryStatus>("GET", "/api/library/status");
      const { entries } = await ask<Found>("GET", `/api/library${query({ q: `path:"${name}"` })}`);
      const found = entries.find(({ path }) => nameOf(path) === name);
      if (found || isComplete) return found?.id ?? null;
      await new Promise((resolve) => window.setTimeout(resolve, LOOK_AGAIN_MS));
    }
  } catch {
    return null;
  }
}
