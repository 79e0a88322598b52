// Parameters of a test as fields: each of its type, with its bounds in words, and its fault beside it.

import { element } from "../../figures/element";

export interface Parameter {
  type: string;
  default: unknown;
  required: boolean;
  minimum: number | null;
  maximum: number | null;
  choices: unknown[] | null;
  items?: string;
  help: string | null;
  value: unknown;
}

const UNITS: Record<string, { unit: string; scales: Record<string, number>; example: string }> = {
  duration: { unit: "s", scales: { ns: 1e-9, us: 1e-6, µs: 1e-6, ms: 1e-3, s: 1, min: 60, m: 60, h: 3600, d: 86400 }, example: "20 ms" },
  rate: {
    unit: "bit/s", example: "10 Mbit/s",
    scales: { "bit/s": 1, "kbit/s": 1e3, "mbit/s": 1e6, "gbit/s": 1e9, bit: 1, kbit: 1e3, mbit: 1e6, gbit: 1e9, bps: 1, kbps: 1e3, mbps: 1e6, gbps: 1e9, k: 1e3, m: 1e6, g: 1e9 },
  },
  size: { unit: "bytes", scales: { b: 1, bytes: 1, kb: 1e3, mb: 1e6, gb: 1e9, kib: 1024, mib: 1 << 20, gib: 1 << 30, k: 1e3, m: 1e6, g: 1e9 }, example: "64 KiB" },
  integer: { unit: "", scales: {}, example: "4" },
  number: { unit: "", scales: {}, example: "1.5" },
};

// A value in words, as the form takes it back.
export function written(parameter: Parameter): string {
  const { value } = parameter;
  if (value === null || value === undefined || value === "") return "";
  if (Array.isArray(value)) return value.join(",");
  if (typeof value === "boolean") return value ? "yes" : "no";
  const unit = typeof value === "number" ? UNITS[parameter.type]?.unit : "";
  return `${String(value)}${unit && unit !== "bytes" ? ` ${unit}` : ""}`;
}

// What a field takes, in words.
export function bounds(parameter: Parameter): string {
  const known = UNITS[parameter.type];
  if (parameter.type === "list") return `${parameter.items === "text" ? "Texts" : "Values"}, separated by commas.`;
  if (!known) return parameter.type === "dscp" ? "0 to 63, or a name such as EF, CS1, AF41." : "";
  const { minimum: low, maximum: high } = parameter;
  const unit = known.unit ? ` ${known.unit}` : "";
  const range = low !== null && high !== null ? `${low} to ${high}${unit}` : low !== null ? `at least ${low}${unit}` : high !== null ? `at most ${high}${unit}` : "";
  const example = known.unit ? `such as ${known.example}` : "";
  const words = [range, example].filter((part) => part).join(", ");
  return words ? `${words[0]?.toUpperCase() ?? ""}${words.slice(1)}.` : "";
}

// What is wrong with a text, in words; empty: nothing. The server checks everything again.
export function faultOf(parameter: Parameter, text: string): string {
  const given = text.trim();
  if (given === "") return parameter.required ? "This must be set." : "";
  const known = UNITS[parameter.type];
  if (!known) return "";
  const found = /^([-+]?[0-9]*\.?[0-9]+(?:e[-+]?[0-9]+)?)\s*(\S*)$/i.exec(given);
  const scale = found?.[2] ? known.scales[found[2].toLowerCase()] : 1;
  if (!found || scale === undefined) return `Expected a ${parameter.type}${known.unit ? `, such as ${known.example}` : " without a unit"}.`;
  const value = Number(found[1]) * scale;
  if (parameter.type === "integer" && !Number.isInteger(value)) return "Expected a whole number.";
  if ((parameter.minimum !== null && value < parameter.minimum) || (parameter.maximum !== null && value > parameter.maximum)) return `Out of its bounds: ${lowered(bounds(parameter))}`;
  return "";
}

function lowered(words: string): string {
  return `${words[0]?.toLowerCase() ?? ""}${words.slice(1)}`;
}

export type Input = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

// A field with its label, what it takes, and the place for what is wrong with it.
export class Field {
  readonly element: HTMLElement;
  private readonly fault: HTMLElement;

  constructor(readonly input: Input, label: string, help: string) {
    const [helpId, faultId] = [`${input.id}-help`, `${input.id}-fault`];
    this.fault = element("span", { class: "fault", id: faultId, role: "alert" });
    input.setAttribute("aria-describedby", `${helpId} ${faultId}`);
    this.element = element("div", { class: "field" },
      element("label", { for: input.id }, label),
      element("div", { class: "value" }, input, element("span", { class: "small help", id: helpId }, help), this.fault));
  }

  complain(words: string): void {
    if (this.fault.textContent !== words) this.fault.textContent = words;
    if (words) this.input.setAttribute("aria-invalid", "true");
    else this.input.removeAttribute("aria-invalid");
  }

  get hasFault(): boolean {
    return this.fault.textContent !== "";
  }
}

export function fieldOf(name: string, parameter: Parameter, isSecret: boolean): Field {
  const help = [parameter.help ?? "", bounds(parameter)].filter((part) => part).join(" ");
  return new Field(inputOf(name, parameter, isSecret), name, help);
}

function inputOf(name: string, parameter: Parameter, isSecret: boolean): Input {
  const id = `p-${name}`;
  const byDefault = written(parameter);
  const choices = parameter.choices ?? (parameter.type === "boolean" ? ["yes", "no"] : null);
  if (choices) {
    const none = element("option", { value: "" }, byDefault ? `default: ${byDefault}` : "as the system does");
    return element("select", { id }, none, ...choices.map((choice) => element("option", { value: String(choice) }, String(choice))));
  }
  const attributes = { id, autocomplete: "off", spellcheck: "false", placeholder: byDefault ? `default: ${byDefault}` : "" };
  if (isSecret) return element("input", { ...attributes, type: "password" });
  if (parameter.type === "dscp") return element("input", { ...attributes, list: "code-points" });
  return element("input", attributes);
}
