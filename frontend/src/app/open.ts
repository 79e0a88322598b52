// An analysis: its progress, then its document, with figures drawn when they come into sight.

import { element } from "../figures/element";
import { controls } from "../figures/figures";
import { onThemeChange } from "../figures/theme";
import { copyOnClick } from "../copying";
import { Remote } from "./remote";
import { ask, Failure, listen, type Job } from "./server";
import { size } from "./words";

export function open(view: HTMLElement): void {
  const given = new URLSearchParams(location.search);
  const sources = given.getAll("source");
  if (sources.length === 0) {
    view.replaceChildren(element("h1", {}, "Open"), element("p", {}, "Choose captures or recordings in ", element("a", { href: "/browse" }, "Browse"), "."));
    return;
  }
  const words = element("p", { role: "status" }, "Reading…");
  const bar = element("progress", { max: 1 });
  const cancel = element("button", { type: "button" }, "Cancel");
  view.replaceChildren(element("h1", {}, "Explaining"), words, bar, cancel);
  const fail = (reason: unknown): void => {
    view.replaceChildren(element("h1", {}, "No verdict"), element("p", { class: "note", role: "alert" }, reason instanceof Error ? reason.message : String(reason)));
  };
  let stop = (): void => undefined;
  let isDone = false;
  const follow = (analysis: Job): void => {
    if (isDone) return;
    isDone = analysis.state === "failed" || analysis.state === "ready";
    if (isDone) {
      stop();
      if (analysis.state === "failed") fail(new Failure(analysis.problem));
      else void showDocument(view, analysis.id).catch(fail);
      return;
    }
    const { done_bytes: done, of_bytes: of } = analysis.progress as { done_bytes?: number; of_bytes?: number };
    if (!done || !of) return;
    bar.value = done / of;
    words.textContent = `${size(done)} of ${size(of)} read`;
  };
  const begin = async (): Promise<void> => {
    const selection = { filter: given.get("filter"), begin: given.get("begin"), end: given.get("end") };
    const started = await ask<Job>("POST", "/api/analyses", { source: sources, ...selection });
    cancel.addEventListener("click", () => {
      stop();
      void ask("DELETE", `/api/analyses/${started.id}`);
      location.href = "/browse";
    });
    stop = listen<Job>(`jobs/${started.id}`, follow);
    // It may have become ready before the events were read.
    follow(await ask<Job>("GET", `/api/analyses/${started.id}`));
  };
  void begin().catch(fail);
}

interface Page {
  title: string;
  html: string;
  choices: Record<string, string[]>;
}

async function showDocument(view: HTMLElement, id: string): Promise<void> {
  const page = await ask<Page>("GET", `/api/analyses/${id}/page`);
  document.title = `${page.title} – whydrop`;
  const template = document.createElement("template");
  // The server made it of escaped text (show/html.py), and the policy of the page runs no script in it.
  template.innerHTML = page.html;
  view.replaceChildren(template.content);
  copyOnClick(view);
  const drawn: (() => void)[] = [];
  const seen = new IntersectionObserver((found) => {
    for (const { target, isIntersecting } of found) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      const section = target.closest<HTMLElement>("section[id]:not(.figure)");
      if (!section) continue;
      const remote = new Remote(section, `/api/analyses/${id}/figures`, section.id);
      const choose = (choice: number): void => void remote.show({ part: section.id, choice });
      controls(section, page.choices[section.id] ?? [], choose, (how) => remote.zoom(how));
      drawn.push(() => remote.redraw());
      choose(0);
    }
  }, { rootMargin: "400px" });
  for (const holder of view.querySelectorAll(".figures")) seen.observe(holder);
  onThemeChange(() => drawn.forEach((redraw) => redraw()));
}
