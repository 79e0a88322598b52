// An analysis: what to open, its progress, then its document with charts that show the same time.

import { element } from "../figures/element";
import { problemOf, ready } from "./document";
import { keys } from "./keyboard";
import { linkOf, stateOf, type OpenState } from "./open_state";
import { openForm, selectionForm } from "./open_forms";
import { showAnalysis } from "./open_view";
import { ask, type Job } from "./server";
import { timeLeft } from "./time_left";
import { size } from "./words";
import "./open.css";

export function open(view: HTMLElement): void {
  const state = stateOf(location.search);
  if (state.sources.length === 0) {
    openForm(view);
    return;
  }
  const words = element("p", { role: "status" }, "Reading…");
  const bar = element("progress", { max: 1, "aria-label": "Read" });
  const cancel = element("button", { type: "button" }, "Cancel");
  view.replaceChildren(element("h1", {}, "Explaining"), words, bar, cancel);
  const ended = new AbortController();
  void explain(state, view, ended, (done, of) => {
    bar.value = done / of;
    words.textContent = `${size(done)} of ${size(of)} read${timeLeft(done, of)}`;
  }, cancel).catch((reason: unknown) => {
    if (!ended.signal.aborted) view.replaceChildren(element("h1", {}, "No verdict"), problemOf(reason), selectionForm(state), element("p", {}, element("a", { href: "/open" }, "Open something else")));
  });
}

async function explain(
  state: OpenState, view: HTMLElement, ended: AbortController, progress: (done: number, of: number) => void, cancel: HTMLElement,
): Promise<void> {
  const selection = { filter: state.filter || null, begin: state.begin || null, end: state.end || null };
  const started = await ask<Job>("POST", "/api/analyses", { source: state.sources, ...selection });
  const address = `/api/analyses/${started.id}`;
  cancel.addEventListener("click", () => {
    ended.abort();
    void ask("DELETE", address).finally(() => {
      view.replaceChildren(
        element("h1", {}, "Cancelled"), element("p", { role: "status" }, "The analysis has ended; the files are as they were."),
        element("p", {}, element("a", { href: `/open${linkOf(state)}` }, "Explain them after all"), " · ", element("a", { href: "/open" }, "Open something else")),
      );
    });
  });
  await ready(address, started, (found) => {
    const { done_bytes: done, of_bytes: of } = found as { done_bytes?: number; of_bytes?: number };
    if (done && of) progress(done, of);
  }, ended.signal);
  const act = await showAnalysis(view, address, state);
  keys([
    { key: "+", words: "Zoom in", act: () => act.zoom("in") },
    { key: "-", words: "Zoom out", act: () => act.zoom("out") },
    { key: "ArrowLeft", words: "Earlier times", act: () => act.zoom("left") },
    { key: "ArrowRight", words: "Later times", act: () => act.zoom("right") },
    { key: "0", words: "Show all of the time", act: () => act.zoom("all") },
    { key: "l", words: "Show the heaviest loss", act: () => act.zoom("focus") },
    { key: "n", words: "Next loss", act: () => act.toLoss(1) },
    { key: "b", words: "Previous loss", act: () => act.toLoss(-1) },
    { key: "p", words: "Packets of the time shown", act: () => act.packets() },
    { key: "m", words: "Your model, beside the verdict", act: () => act.model() },
    { key: "P", words: "Print, with the charts that are not in sight", act: () => void act.print() },
    { key: "c", words: "Charts of all flows again", act: () => act.clear() },
  ]);
}
