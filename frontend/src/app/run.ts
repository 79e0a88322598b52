// Starts a test, shows it while it runs, and leads to its verdict.

import { element } from "../figures/element";
import { Following } from "./run/following";
import { ask, query, type Job } from "./server";
import { duration } from "./words";
import "./run/run.css";

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

export function run(view: HTMLElement): void {
  const given = new URLSearchParams(location.search);
  const own = given.get("id");
  if (own) void new Following(view, own).begin();
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
