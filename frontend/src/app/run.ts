// Starts a test, shows it while it runs, and leads to its verdict.

import { element } from "../figures/element";
import { Following, messageOf } from "./run/following";
import { Form } from "./run/form";
import "./run/run.css";

export function run(view: HTMLElement): void {
  const given = new URLSearchParams(location.search);
  const own = given.get("id");
  const shown = own ? new Following(view, own) : new Form(view, given);
  void shown.begin().catch((reason: unknown) => {
    view.append(element("p", { class: "note", role: "alert" }, messageOf(reason)));
  });
}
