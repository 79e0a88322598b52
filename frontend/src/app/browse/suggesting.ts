// A field for searches that suggests keys of the metadata, and values of them, while it is typed.

import { element } from "../../figures/element";
import { ask, query } from "../server";
import { count } from "../words";

interface Suggested {
  begin: number;
  end: number;
  options: { text: string; count: number | null }[];
}

export class SearchField {
  readonly input = element("input", {
    type: "search", id: "search", placeholder: "cc:cubic rtt>50 title~before", "aria-label": "Search", spellcheck: "false",
    autocomplete: "off", maxlength: 2000, role: "combobox", "aria-expanded": "false", "aria-controls": "suggestions",
    "aria-autocomplete": "list",
  });
  private readonly list = element("ul", { id: "suggestions", role: "listbox", "aria-label": "Suggestions", hidden: "" });
  readonly element = element("div", { class: "search" }, this.input, this.list);
  private suggested: Suggested = { begin: 0, end: 0, options: [] };
  private active = -1;
  private asking: AbortController | null = null;

  constructor(private readonly onInput: (text: string) => void, private readonly onEnter: () => void) {
    this.input.addEventListener("input", () => {
      this.onInput(this.input.value);
      void this.suggest();
    });
    this.input.addEventListener("keydown", (event) => this.press(event));
    this.input.addEventListener("blur", () => this.close());
  }

  private press(event: KeyboardEvent): void {
    const isOpen = !this.list.hidden;
    if (event.key === "Escape") {
      // The browser would clear the field. Escape closes the suggestions, a further one leaves the field.
      event.preventDefault();
      if (!isOpen) return;
      event.stopPropagation();
      this.close();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && isOpen) {
      event.preventDefault();
      this.activate(this.active + (event.key === "ArrowDown" ? 1 : -1));
    } else if ((event.key === "Enter" || event.key === "Tab") && isOpen && this.active >= 0) {
      event.preventDefault();
      this.accept(this.active);
    } else if (event.key === "Enter" || event.key === "ArrowDown") {
      event.preventDefault();
      this.close();
      this.onEnter();
    }
  }

  private async suggest(): Promise<void> {
    this.asking?.abort();
    const asking = new AbortController();
    this.asking = asking;
    const { value } = this.input;
    try {
      const path = `/api/library/suggestions${query({ q: value, at: this.input.selectionStart ?? value.length })}`;
      const found = await ask<Suggested>("GET", path, undefined, asking.signal);
      if (value === this.input.value && document.activeElement === this.input) this.show(found);
    } catch {
      // Suggestions are a help: the search itself says what is wrong.
      if (this.asking === asking) this.close();
    }
  }

  private show(found: Suggested): void {
    const typed = this.input.value.slice(found.begin, found.end);
    this.suggested = found;
    this.active = -1;
    const isDone = found.options.length === 1 && found.options[0]?.text === typed;
    const options = isDone ? [] : found.options;
    this.list.replaceChildren(...options.map((option, at) => {
      const parts = [element("span", {}, option.text), ...(option.count === null ? [] : [element("span", { class: "small" }, count(option.count))])];
      const line = element("li", { role: "option", id: `suggestion-${at}`, "aria-selected": "false" }, ...parts);
      // Before the field loses the focus.
      line.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        this.accept(at);
      });
      return line;
    }));
    this.list.hidden = options.length === 0;
    this.input.setAttribute("aria-expanded", String(options.length > 0));
    this.input.removeAttribute("aria-activedescendant");
  }

  private activate(at: number): void {
    const lines = [...this.list.children];
    this.active = (at + lines.length + (this.active < 0 && at < 0 ? 1 : 0)) % lines.length;
    lines.forEach((line, number) => line.setAttribute("aria-selected", String(number === this.active)));
    lines[this.active]?.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", `suggestion-${this.active}`);
  }

  private accept(at: number): void {
    const option = this.suggested.options[at];
    if (!option) return;
    const { value } = this.input;
    const isValue = !option.text.endsWith(":");
    const before = value.slice(0, this.suggested.begin) + option.text + (isValue ? " " : "");
    this.input.value = before + value.slice(this.suggested.end).replace(/^ /, "");
    this.input.setSelectionRange(before.length, before.length);
    this.onInput(this.input.value);
    if (isValue) this.close();
    else void this.suggest();
  }

  private close(): void {
    this.asking?.abort();
    this.list.hidden = true;
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}
