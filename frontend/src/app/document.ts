// A document that the server holds: its HTML, with figures drawn when they come into sight.

import { element } from "../figures/element";
import { controls } from "../figures/figures";
import { onThemeChange } from "../figures/theme";
import { copyOnClick } from "../copying";
import { Remote } from "./remote";
import { ask, Failure, listen, type Job } from "./server";

export interface Page {
  title: string;
  html: string;
  choices: Record<string, string[]>;
}

// Waits until a job is ready; `onProgress` is given what it reports meanwhile. `ended` lets the caller stop waiting.
export async function ready(address: string, job: Job, onProgress: (progress: Job["progress"]) => void, ended?: AbortSignal): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    const judge = (found: Job): void => {
      if (ended?.aborted) return;
      if (found.state === "running") {
        onProgress(found.progress);
        return;
      }
      stop();
      if (found.state === "failed") reject(new Failure(found.problem));
      else resolve();
    };
    const stop = listen<Job>(`jobs/${job.id}`, judge);
    ended?.addEventListener("abort", stop);
    // It may have become ready before the events were read.
    ask<Job>("GET", address).then(judge, reject);
  });
}

// Shows the document at an address of the API in a place of the page.
export async function showDocument(place: HTMLElement, address: string): Promise<void> {
  const page = await ask<Page>("GET", `${address}/page`);
  document.title = `${page.title} – whydrop`;
  const template = document.createElement("template");
  // The server made it of escaped text (show/html.py), and the policy of the page runs no script in it.
  template.innerHTML = page.html;
  place.replaceChildren(template.content);
  copyOnClick(place);
  const drawn: (() => void)[] = [];
  const seen = new IntersectionObserver((found) => {
    for (const { target, isIntersecting } of found) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      const section = target.closest<HTMLElement>("section[id]:not(.figure)");
      if (!section) continue;
      const remote = new Remote(section, `${address}/figures`, section.id);
      const choose = (choice: number): void => void remote.show({ part: section.id, choice });
      controls(section, page.choices[section.id] ?? [], choose, (how) => remote.zoom(how));
      drawn.push(() => remote.redraw());
      choose(0);
    }
  }, { rootMargin: "400px" });
  for (const holder of place.querySelectorAll(".figures")) seen.observe(holder);
  onThemeChange(() => drawn.forEach((redraw) => redraw()));
}

// The words of a failure, for the reader.
export function problemOf(reason: unknown): HTMLElement {
  return element("p", { class: "note", role: "alert" }, reason instanceof Error ? reason.message : String(reason));
}
