// Starts a test, shows it while it runs, and leads to its verdict.

import { element } from "../figures/element";
import { onThemeChange } from "../figures/theme";
import { Live, type Points } from "./live";
import { ask, Failure, listen, query, type Job } from "./server";
import { duration } from "./words";

interface Test {
  name: string;
  title: string;
  family: string;
}

interface Described {
  title: string;
  description?: string;
  length_s?: number;
}

type Event = Job & { series?: Points };

const ENDED = new Set(["complete", "interrupted", "failed"]);

export function run(view: HTMLElement): void {
  const given = new URLSearchParams(location.search);
  const own = given.get("id");
  if (own) follow(view, own);
  else void choose(view, given).catch((reason: unknown) => complain(view, reason));
}

function complain(view: HTMLElement, reason: unknown): void {
  const words = reason instanceof Error ? reason.message : String(reason);
  const shown = view.querySelector(".note") ?? view.appendChild(element("p", { class: "note", role: "alert" }));
  shown.textContent = words;
}

async function choose(view: HTMLElement, given: URLSearchParams): Promise<void> {
  const { tests } = await ask<{ tests: Test[] }>("GET", "/api/tests");
  const select = element("select", { id: "test" });
  const families = new Map<string, HTMLElement>();
  for (const test of tests) {
    const group = families.get(test.family) ?? element("optgroup", { label: test.family });
    families.set(test.family, group);
    group.append(element("option", { value: test.name }, `${test.name} – ${test.title}`));
  }
  select.append(...families.values());
  select.value = given.get("test") ?? "rrul";
  const to = element("input", { id: "to", required: "", placeholder: "server.example or 192.0.2.7:17370", autocomplete: "off", spellcheck: "false" });
  to.value = given.get("to") ?? "";
  const length = element("input", { id: "duration", type: "number", min: 1, max: 86400, placeholder: "as the test says" });
  const secret = element("input", { id: "secret", type: "password", autocomplete: "off", placeholder: "that of the server's $WHYDROP_SECRET" });
  const title = element("input", { id: "title", maxlength: 200 });
  const description = element("p", { class: "see" });
  const start = element("button", { type: "submit" }, "Start");
  const field = (label: string, input: HTMLElement): HTMLElement => element("p", { class: "field" }, element("label", { for: input.id }, label), input);
  const form = element("form", {}, field("Test", select), description, field("Far end", to), field("Duration in seconds", length), field("Secret of the responder", secret), field("Title", title), start);
  view.replaceChildren(element("h1", {}, "Run a test"), form);

  const describe = async (): Promise<void> => {
    const { test } = await ask<{ test: Described }>("GET", `/api/tests/${encodeURIComponent(select.value)}`);
    description.textContent = [test.description ?? test.title, test.length_s ? `The load lasts ${duration(test.length_s)}.` : ""].join(" ");
  };
  select.addEventListener("change", () => void describe().catch((reason: unknown) => complain(view, reason)));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    start.disabled = true;
    const asked = {
      test: select.value, to: to.value.split(/[\s,]+/).filter((host) => host), title: title.value,
      ...(length.value ? { duration_s: Number(length.value) } : {}), ...(secret.value ? { secret: secret.value } : {}),
    };
    ask<Job>("POST", "/api/runs", asked).then(
      (job) => { location.href = `/run${query({ id: job.id })}`; },
      (reason: unknown) => { start.disabled = false; complain(view, reason); },
    );
  });
  await describe();
}

function follow(view: HTMLElement, own: string): void {
  const heading = element("h1", {}, "Running");
  const words = element("p", { role: "status" });
  const bar = element("progress", { max: 1 });
  const stop = element("button", { type: "button" }, "Stop, and keep what was measured");
  const live = new Live();
  view.replaceChildren(heading, words, bar, stop, live.element);
  onThemeChange(() => live.redraw());
  stop.addEventListener("click", () => void ask("POST", `/api/runs/${own}/stop`).catch((reason: unknown) => complain(view, reason)));

  const show = (job: Event): void => {
    const { elapsed_s: elapsed, total_s: total } = job.progress as { elapsed_s?: number; total_s?: number };
    heading.textContent = `${String(job.about["test"])} to ${(job.about["to"] as string[]).join(", ")}`;
    words.textContent = elapsed && total ? `${job.state}: ${duration(Math.round(elapsed))} of ${duration(Math.round(total))}` : job.state;
    if (elapsed && total) bar.value = elapsed / total;
    if (job.series) live.add(job.series);
    // A recording has its entry in the library a moment after its end.
    if (ENDED.has(job.state) && (job.problem || job.progress["entry"])) ended(job);
  };
  const ended = (job: Event): void => {
    stopListening();
    stop.remove();
    bar.remove();
    const entry = job.progress["entry"];
    if (job.problem) complain(view, new Failure(job.problem));
    if (typeof entry === "string") {
      const link = element("a", { class: "button", href: `/open${query({ source: [entry] })}` }, "Show the verdict and all plots");
      words.after(element("p", {}, link));
    }
  };
  let stopListening = (): void => undefined;
  const begin = async (): Promise<void> => {
    stopListening = listen<Event>(`jobs/${own}`, show, () => location.reload());
    const [job, { series }] = await Promise.all([
      ask<Job>("GET", `/api/runs/${own}`),
      ask<{ series: Points }>("GET", `/api/runs/${own}/live`).catch(() => ({ series: {} })),
    ]);
    live.add(series);
    show(job);
  };
  void begin().catch((reason: unknown) => complain(view, reason));
}
