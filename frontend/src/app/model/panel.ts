// A reader's own model beside a verdict: a path that is replayed over its packets while the reader changes it.

import { copyOnClick } from "../../copying";
import { element } from "../../figures/element";
import { controls } from "../../figures/figures";
import { onThemeChange } from "../../figures/theme";
import type { PredictionPanel } from "../predict/panel";
import { Remote, type Additions } from "../remote";
import { ask, messageOf } from "../server";
import { Fields } from "./fields";
import { Latest } from "./latest";
import { written, type Kind } from "./paths";
import { partOf } from "./starts";
import "./model.css";

// What the server offers: elements, and verdicts with packets, each with its fitted path if there is one.
export interface Offered {
  elements: Kind[];
  verdicts: { verdict: number; packets: number; fitted: string | null }[];
}

interface Replayed {
  model: string;
  command: string;
  html: string;
}

const PART = "model";
const FIRST = "policer";

const ZOOM = [["in", "Zoom in"], ["out", "Zoom out"], ["all", "Show all"]] as const;

export class ModelPanel {
  readonly element: HTMLDetailsElement;
  private readonly text: HTMLInputElement;
  private readonly wrong: HTMLElement;
  private readonly table = element("div", { class: "replayed" });
  private readonly said = element("p", { class: "visually-hidden", role: "status" });
  private readonly command = element("code");
  private readonly figures: HTMLElement;
  private readonly found: HTMLElement;
  private readonly fields: Fields;
  private readonly remote: Remote;
  private readonly latest = new Latest<string>((text) => this.replay(text));

  // `changed` is called with the text that the address should have, null once the panel is closed; `shown` when the
  // figure is drawn.
  constructor(
    private readonly address: string, private readonly offered: Offered["verdicts"][number], elements: readonly Kind[],
    additions: Additions, private readonly changed: (text: string | null) => void, private readonly shown: (remote: Remote) => void,
    private readonly prediction: PredictionPanel | null = null,
  ) {
    const id = `model-${offered.verdict}`;
    this.text = element("input", { id: `${id}-text`, spellcheck: "false", autocomplete: "off", maxlength: 1000, "aria-describedby": `${id}-wrong` });
    this.wrong = element("p", { class: "note", role: "alert", id: `${id}-wrong`, hidden: "" });
    this.fields = new Fields(id, elements, (text) => {
      this.text.value = text;
      this.become(text);
    });
    this.figures = figuresPlace();
    this.found = this.results();
    this.element = element(
      "details", { class: "own-model", id }, element("summary", {}, "Your model"),
      element("p", { class: "small screen" }, "Elements and values that you choose, replayed over the packets of this verdict. A replay knows the arrivals of the packets, not their losses or delays."),
      this.form(), this.found,
    );
    this.remote = new Remote(this.figures, `${address}/figures`, PART, additions);
    controls(this.figures, [], () => undefined, (how) => this.remote.zoom(how));
    onThemeChange(() => this.remote.redraw());
    copyOnClick(this.found);
    this.text.value = offered.fitted ?? written([partOf(elements.find(({ name }) => name === FIRST) ?? { name: FIRST, fields: [] })]);
    this.element.addEventListener("toggle", () => (this.element.open ? this.begin() : this.changed(null)));
  }

  // Opens the panel, with a path from a link if there is one.
  open(text?: string): void {
    if (text !== undefined) this.text.value = text;
    this.element.open = true;
  }

  focus(): void {
    this.open();
    this.text.focus();
    this.element.scrollIntoView({ block: "nearest" });
  }

  private form(): HTMLElement {
    const fit = element("button", { type: "button" }, "Start from the fit");
    fit.addEventListener("click", () => {
      this.text.value = this.offered.fitted ?? "";
      this.begin();
    });
    this.text.addEventListener("input", () => {
      this.fields.show(this.text.value);
      this.become(this.text.value);
    });
    const label = element("label", { for: this.text.id }, "Path");
    const form = element(
      "form", { class: "screen", "aria-label": "Your model" },
      element("p", { class: "path" }, label, this.text, ...(this.offered.fitted === null ? [] : [fit]), ...this.predicting()),
      this.wrong, this.fields.element,
    );
    form.addEventListener("submit", (event) => event.preventDefault());
    return form;
  }

  private predicting(): HTMLElement[] {
    const prediction = this.prediction;
    if (!prediction) return [];
    const button = element("button", { type: "button" }, "Predict with this path");
    button.addEventListener("click", () => prediction.ofPath(this.text.value));
    return [button];
  }

  private results(): HTMLElement {
    const copy = element("button", { type: "button", class: "copy" }, "Copy as command");
    const command = element("div", { class: "command" }, element("pre", { tabindex: 0, "aria-label": "The command that replays your model" }, this.command), copy);
    const place = element("div", { class: "found" }, this.table, this.said, command);
    place.hidden = true;
    return place;
  }

  private begin(): void {
    this.fields.show(this.text.value, true);
    this.become(this.text.value);
  }

  private become(text: string): void {
    this.changed(text);
    this.latest.ask(text);
  }

  private async replay(text: string): Promise<void> {
    const given = { verdict: String(this.offered.verdict), model: text };
    try {
      const found = await ask<Replayed>("GET", `${this.address}/replay?${new URLSearchParams(given).toString()}`);
      this.showFound(found);
      // Its picture would be that of a path that is changed already; but a reader who moves a slider on sees where to.
      await this.remote.show({ part: PART, choice: this.offered.verdict, model: found.model }, true);
      this.shown(this.remote);
    } catch (reason) {
      if (!this.latest.isWaiting) this.showWrong(messageOf(reason));
    }
  }

  private showFound(found: Replayed): void {
    this.showWrong("");
    this.found.hidden = false;
    // Not before: an empty place of figures is one that is still to be drawn, for those who print.
    if (!this.figures.isConnected) this.found.append(this.figures);
    const template = document.createElement("template");
    // The server made it of escaped text (show/html.py), and the policy of the page runs no script in it.
    template.innerHTML = found.html;
    this.table.replaceChildren(template.content);
    this.command.textContent = found.command;
    if (!this.latest.isWaiting) this.said.textContent = summaryOf(this.table);
  }

  private showWrong(words: string): void {
    this.wrong.hidden = words === "";
    this.wrong.textContent = words;
    this.text.setAttribute("aria-invalid", String(words !== ""));
    this.found.classList.toggle("outdated", words !== "");
  }
}

// The drops of the reader's model, in the last column, for those who do not see the table change.
function summaryOf(table: HTMLElement): string {
  const rows = [...table.querySelectorAll("tbody tr")].slice(0, 2);
  return rows.map((row) => `${row.firstElementChild?.textContent ?? ""}: ${row.lastElementChild?.textContent ?? ""}`).join(", ");
}

function figuresPlace(): HTMLElement {
  const buttons = ZOOM.map(([how, words]) => element("button", { type: "button", "data-zoom": how }, words));
  return element(
    "div", { class: "model-figures" },
    element("div", { class: "controls" }, element("span", { class: "buttons", role: "group", "aria-label": "Zoom of your model" }, ...buttons)),
    element("div", { class: "figures" }),
  );
}
