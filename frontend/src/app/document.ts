// A document that the server holds: its HTML, with figures drawn when they come into sight.

import { element } from "../figures/element";
import { controls } from "../figures/figures";
import { onThemeChange } from "../figures/theme";
import { copyOnClick } from "../copying";
import { Remote, type Additions } from "./remote";
import { ask, Failure, listen, messageOf, type Job, type Values } from "./server";

export interface Page {
  title: string;
  html: string;
  choices: Record<string, string[]>;
  packets?: string;
}

// What a view adds to a document.
export interface Hooks {
  additions?: Additions;
  // Further options of the figures.
  options?: () => Values;
  // The names of the sets of figures of a section, where they are not those of the document; and the one to show first.
  choices?: (part: string) => string[] | undefined;
  first?: (part: string) => number;
  onShown?: (remote: Remote, section: HTMLElement, choice: number) => void;
  // Called with the document before its figures are drawn.
  onPage?: (page: Page) => void | Promise<void>;
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

// Shows the document at an address of the API in a place of the page. `drawAll` draws what is not in sight, too.
export async function showDocument(place: HTMLElement, address: string, hooks: Hooks = {}): Promise<Page & { drawAll: () => Promise<void> }> {
  const page = await ask<Page>("GET", `${address}/page`);
  document.title = `${page.title} – whydrop`;
  const template = document.createElement("template");
  // The server made it of escaped text (show/html.py), and the policy of the page runs no script in it.
  template.innerHTML = page.html;
  place.replaceChildren(template.content);
  copyOnClick(place);
  // Figures that a view adds are its own.
  const holders = [...place.querySelectorAll(".figures")];
  await hooks.onPage?.(page);
  const drawn: (() => void)[] = [];
  const begun = new Map<Element, Promise<void>>();
  const begin = (holder: Element): Promise<void> => {
    const before = begun.get(holder);
    if (before) return before;
    const section = holder.closest<HTMLElement>("section[id]:not(.figure)");
    const first = section ? drawSection(section, address, page, hooks, drawn) : Promise.resolve();
    begun.set(holder, first);
    return first;
  };
  const seen = new IntersectionObserver((found) => {
    for (const { target, isIntersecting } of found) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      void begin(target);
    }
  }, { rootMargin: "400px" });
  for (const holder of holders) seen.observe(holder);
  onThemeChange(() => drawn.forEach((redraw) => redraw()));
  return { ...page, drawAll: async () => { await Promise.all(holders.map(begin)); } };
}

// Draws the first set of figures of a section; the returned promise ends when they, or what went wrong, are there.
function drawSection(section: HTMLElement, address: string, page: Page, hooks: Hooks, drawn: (() => void)[]): Promise<void> {
  const remote = new Remote(section, `${address}/figures`, section.id, hooks.additions);
  const choose = async (choice: number): Promise<void> => {
    try {
      await remote.show({ part: section.id, choice, ...hooks.options?.() });
      hooks.onShown?.(remote, section, choice);
    } catch (reason) {
      section.querySelector(".figures")?.replaceChildren(problemOf(reason));
    }
  };
  const names = hooks.choices?.(section.id) ?? page.choices[section.id] ?? [];
  controls(section, names, (choice) => void choose(choice), (how) => remote.zoom(how));
  drawn.push(() => remote.redraw());
  const first = Math.max(0, hooks.first?.(section.id) ?? 0);
  const select = section.querySelector("select");
  if (select) select.value = String(first);
  return choose(first);
}

// The words of a failure, for the reader.
export function problemOf(reason: unknown): HTMLElement {
  return element("p", { class: "note", role: "alert" }, messageOf(reason));
}
