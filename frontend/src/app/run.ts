// Starts a test or a batch, shows it while it runs, and leads to its verdict.

import { element } from "../figures/element";
import { BatchFollowing, Batches } from "./run/batch";
import { Following } from "./run/following";
import { Form } from "./run/form";
import "./run/run.css";
import { messageOf } from "./server";

export function run(view: HTMLElement): void {
  const given = new URLSearchParams(location.search);
  void shown(view, given).begin().catch((reason: unknown) => {
    view.append(element("p", { class: "note", role: "alert" }, messageOf(reason)));
  });
}

function shown(view: HTMLElement, given: URLSearchParams): { begin: () => Promise<void> } {
  const [one, batch] = [given.get("id"), given.get("batch")];
  if (one) return new Following(view, one);
  if (batch) return new BatchFollowing(view, batch);
  return given.get("view") === "batches" ? new Batches(view, given) : new Form(view, given);
}
