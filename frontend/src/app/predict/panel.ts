// Predicted effect of changes to the connections of an analysis: usual ones, those that a reader types, or another path.

import { copyOnClick } from "../../copying";
import { element } from "../../figures/element";
import { ask, messageOf } from "../server";
import "./predict.css";

interface Predicted {
  html: string;
  command: string;
}

const WAITING = "Simulating the connections. This takes some seconds.";

export class PredictionPanel {
  readonly element: HTMLDetailsElement;
  private readonly text = element("input", {
    id: "predict-changes", spellcheck: "false", autocomplete: "off", maxlength: 1000, placeholder: "pace=19M, cc=bbr", "aria-describedby": "predict-wrong",
  });
  private readonly button = element("button", { type: "submit" }, "Predict");
  private readonly wrong = element("p", { class: "note", role: "alert", id: "predict-wrong", hidden: "" });
  private readonly said = element("p", { class: "small", role: "status" });
  private readonly answer = element("div", { class: "predicted" });
  private readonly command = element("code");
  private readonly commandPlace = element("div", { class: "command" });
  private readonly found: HTMLElement;
  // An answer to an earlier question comes too late.
  private asked = 0;

  constructor(private readonly address: string) {
    this.found = this.results();
    this.element = element(
      "details", { class: "prediction", id: "predict" }, element("summary", {}, "Predicted effect of changes"),
      element("p", { class: "small screen" }, "Connections like those captured are simulated over the fitted path, with and without changes."),
      this.form(), this.wrong, this.said, this.found,
    );
    copyOnClick(this.found);
    this.element.addEventListener("toggle", () => {
      if (this.element.open && this.asked === 0) void this.predict([]);
    });
  }

  // What another path would bring, whatever the form has.
  ofPath(path: string): void {
    this.text.value = `path=${path}`;
    void this.predict([this.text.value]);
    this.element.open = true;
    this.element.scrollIntoView({ block: "nearest" });
  }

  private form(): HTMLElement {
    const label = element("label", { for: this.text.id }, "Changes");
    const form = element("form", { class: "screen", "aria-label": "Changes" }, element("p", { class: "changes" }, label, this.text, this.button));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.predict(changesOf(this.text.value));
    });
    return form;
  }

  private results(): HTMLElement {
    const copy = element("button", { type: "button", class: "copy" }, "Copy as command");
    this.commandPlace.append(element("pre", { tabindex: 0, "aria-label": "The command that predicts this" }, this.command), copy);
    const place = element("div", { class: "found" }, this.answer, this.commandPlace);
    place.hidden = true;
    return place;
  }

  private async predict(changes: string[]): Promise<void> {
    const own = ++this.asked;
    this.showWrong("");
    this.said.textContent = WAITING;
    try {
      const given = new URLSearchParams(changes.map((change) => ["change", change]));
      const found = await ask<Predicted>("GET", `${this.address}/prediction?${given.toString()}`);
      if (own === this.asked) this.show(found);
    } catch (reason) {
      if (own === this.asked) this.showWrong(messageOf(reason));
    } finally {
      if (own === this.asked) this.said.textContent = "";
    }
  }

  private show(found: Predicted): void {
    this.found.hidden = false;
    const template = document.createElement("template");
    // The server made it of escaped text (show/html.py), and the policy of the page runs no script in it.
    template.innerHTML = found.html;
    this.answer.replaceChildren(template.content);
    this.command.textContent = found.command;
    // No command predicts for a part of captures.
    this.commandPlace.hidden = found.command === "";
  }

  private showWrong(words: string): void {
    this.wrong.hidden = words === "";
    this.wrong.textContent = words;
    this.text.setAttribute("aria-invalid", String(words !== ""));
    this.found.classList.toggle("outdated", words !== "");
  }
}

// Changes are separated by commas or spaces; the commas of a path belong to it.
export function changesOf(text: string): string[] {
  const parts: string[] = [];
  for (const part of text.split(/[\s,]+/).filter((one) => one !== "")) {
    const last = parts.at(-1);
    if (last?.startsWith("path=") && !/^(?:cc|pace|rtt|mtu|aqm|path)=|^[\w-]+\.[\w-]+=/.test(part)) parts[parts.length - 1] = `${last},${part}`;
    else parts.push(part);
  }
  return parts;
}
