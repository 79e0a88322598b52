// The values with which elements and fields begin when a reader adds them.

import { fieldOf, isPlain, isRate, isShare, quantityOf, type Field, type Kind, type Part } from "./paths";

const STARTS: Record<string, string> = {
  rate: "100M", "peak-rate": "200M", burst: "50kB", "peak-burst": "10kB", "excess-burst": "50kB", initial: "50kB",
  overhead: "38B", mtu: "1500B", min: "20packets", max: "60packets", "max-probability": "10%", weight: "0.2%", tick: "4ms", target: "5ms",
  interval: "100ms", share: "2%", mean: "200ms", "mean-burst": "4packets", "good-to-bad": "1%", "bad-to-good": "30%",
  "loss-in-good": "0", "loss-in-bad": "80%", time: "5ms", low: "1ms", high: "3ms", turn: "2ms", most: "32packets",
  from: "1s", until: "2s",
};

// Fields that only make sense together.
const TOGETHER: Record<string, string> = { "peak-rate": "peak-burst", "peak-burst": "peak-rate" };

function startOf(field: Field): string {
  const known = STARTS[field.name];
  if (known !== undefined && quantityOf(field, known)) return known;
  if (field.choices.length > 0) return field.choices[0] ?? "";
  if (field.units.length === 0) return "";
  if (isRate(field)) return "100M";
  if (isShare(field)) return "1%";
  if (isPlain(field)) return "1";
  const first = field.units[0]?.[0];
  return first === "packets" ? "100packets" : first === "s" ? "5ms" : "100kB";
}

// An element of a kind that keeps what the one before it has in common with it.
export function partOf(kind: Kind, before?: Part): Part {
  const settings: [string, string][] = [];
  for (const [key, value] of before?.settings ?? []) {
    const field = fieldOf(kind, key, value);
    if (field && (field.units.length === 0 || quantityOf(field, value))) settings.push([key, value]);
  }
  for (const field of kind.fields) {
    if (field.required && !settings.some(([key]) => key === field.name)) settings.push([field.name, startOf(field)]);
  }
  return { name: kind.name, settings };
}

// The optional fields of a kind that a part does not have.
export function missingFrom(kind: Kind, part: Part): Field[] {
  const present = new Set(part.settings.map(([key, value]) => fieldOf(kind, key, value)));
  return kind.fields.filter((field) => !field.required && !present.has(field));
}

export function withField(kind: Kind, part: Part, field: Field): Part {
  const both = [field, ...missingFrom(kind, part).filter(({ name }) => name === TOGETHER[field.name])];
  return { ...part, settings: [...part.settings, ...both.map((one): [string, string] => [one.name, startOf(one)])] };
}

export function withoutField(part: Part, at: number): Part {
  const key = part.settings[at]?.[0] ?? "";
  const gone = new Set([key, TOGETHER[key]]);
  return { ...part, settings: part.settings.filter(([own], place) => place !== at && (own === key || !gone.has(own))) };
}
