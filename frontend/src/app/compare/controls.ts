// The form of a plot's options. Those that do not apply to the plot are hidden, and have no effect.

import { element } from "../../figures/element";
import type { Values } from "../server";
import { listOf, OPTIONS, type Context, type Option } from "./options";

type Input = HTMLInputElement | HTMLSelectElement;

export class Controls {
  readonly element = element("details", { class: "plot-options" }, element("summary", {}, "Options of the plot"));
  private readonly inputs = new Map<string, { option: Option; input: Input; row: HTMLElement }>();

  // `suggestions` are lists by their names; `choices` are those of options that depend on what is compared.
  constructor(
    given: URLSearchParams,
    suggestions: Record<string, readonly string[]>,
    choices: Record<string, readonly (readonly [string, string])[]>,
    onChange: () => void,
  ) {
    for (const [name, values] of Object.entries(suggestions)) {
      this.element.append(element("datalist", { id: `list-${name}` }, ...values.map((value) => element("option", { value }))));
    }
    for (const group of ["Recordings", "Series", "Axes", "Words"] as const) {
      const own = OPTIONS.filter((option) => option.group === group);
      const rows = own.map((option) => this.row(option, choices[option.name] ?? option.choices ?? [], given));
      this.element.append(element("fieldset", {}, element("legend", {}, group), ...rows));
    }
    this.element.addEventListener("change", () => {
      onChange();
    });
    this.element.open = OPTIONS.some(({ name }) => given.has(name));
  }

  private row(option: Option, choices: readonly (readonly [string, string])[], given: URLSearchParams): HTMLElement {
    const { name, label, explanation, placeholder, suggestions } = option;
    const id = `option-${name}`;
    const attributes = { id, "aria-describedby": `${id}-words` };
    const input = option.kind === "choice"
      ? element("select", attributes, ...choices.map(([value, words]) => element("option", { value }, words)))
      : element("input", {
        ...attributes,
        type: option.kind === "check" ? "checkbox" : option.kind === "number" ? "number" : "text",
        spellcheck: "false",
        ...(option.kind === "number" ? { min: 0, max: 10_000 } : {}),
        ...(placeholder ? { placeholder } : {}),
        ...(suggestions ? { list: `list-${suggestions}`, autocomplete: "off" } : {}),
      });
    fill(option, input, given);
    const row = element("div", { class: "plot-option" }, element("label", { for: id }, label), input, element("p", { class: "small", id: `${id}-words` }, explanation));
    this.inputs.set(name, { option, input, row });
    return row;
  }

  // Hides what does not apply.
  show(plot: Context): void {
    for (const { option, row } of this.inputs.values()) row.hidden = !option.applies(plot);
    for (const group of this.element.querySelectorAll("fieldset")) {
      group.hidden = [...group.querySelectorAll<HTMLElement>(".plot-option")].every((row) => row.hidden);
    }
  }

  value(name: string): string {
    const found = this.inputs.get(name);
    return found && !found.row.hidden ? found.input.value : "";
  }

  isChecked(name: string): boolean {
    const found = this.inputs.get(name);
    return found?.input instanceof HTMLInputElement && !found.row.hidden && found.input.checked;
  }

  // The options that apply and are set, as the address and the API have them.
  values(): Values {
    const found: Record<string, string | boolean | readonly string[]> = {};
    for (const [name, { option, input, row }] of this.inputs) {
      if (row.hidden) continue;
      const value = valueOf(option, input);
      if (value !== "") found[name] = value;
    }
    return found;
  }
}

function fill(option: Option, input: Input, given: URLSearchParams): void {
  const found = given.getAll(option.name);
  if (input instanceof HTMLInputElement && option.kind === "check") {
    input.checked = found.length > 0 ? found[0] === "true" : option.initially === true;
  } else if (option.kind === "list") input.value = found.join(", ");
  else input.value = found[0] ?? "";
}

function valueOf(option: Option, input: Input): string | boolean | readonly string[] {
  if (option.kind === "list") return listOf(input.value);
  if (option.kind !== "check") return input.value.trim();
  const isChecked = input instanceof HTMLInputElement && input.checked;
  return isChecked === (option.initially === true) ? "" : String(isChecked);
}
