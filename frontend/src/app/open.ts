// An analysis: its progress, then its document.

import { element } from "../figures/element";
import { problemOf, ready, showDocument } from "./document";
import { ask, type Job } from "./server";
import { size } from "./words";

export function open(view: HTMLElement): void {
  const given = new URLSearchParams(location.search);
  const sources = given.getAll("source");
  if (sources.length === 0) {
    view.replaceChildren(element("h1", {}, "Open"), element("p", {}, "Choose captures or recordings in ", element("a", { href: "/browse" }, "Browse"), "."));
    return;
  }
  const words = element("p", { role: "status" }, "Reading…");
  const bar = element("progress", { max: 1, "aria-label": "Read" });
  const cancel = element("button", { type: "button" }, "Cancel");
  view.replaceChildren(element("h1", {}, "Explaining"), words, bar, cancel);
  const begin = async (): Promise<void> => {
    const selection = { filter: given.get("filter"), begin: given.get("begin"), end: given.get("end") };
    const started = await ask<Job>("POST", "/api/analyses", { source: sources, ...selection });
    const address = `/api/analyses/${started.id}`;
    const ended = new AbortController();
    cancel.addEventListener("click", () => {
      ended.abort();
      void ask("DELETE", address);
      location.href = "/browse";
    });
    await ready(address, started, (progress) => {
      const { done_bytes: done, of_bytes: of } = progress as { done_bytes?: number; of_bytes?: number };
      if (!done || !of) return;
      bar.value = done / of;
      words.textContent = `${size(done)} of ${size(of)} read`;
    }, ended.signal);
    await showDocument(view, address);
  };
  void begin().catch((reason: unknown) => view.replaceChildren(element("h1", {}, "No verdict"), problemOf(reason)));
}
