// The text of a path, taken apart and put together: elements joined by "+", each a name with settings. What makes sense
// is judged by the server, which also says which elements, fields and units there are.

export interface Field {
  name: string;
  required: boolean;
  // Names with their factors, the largest first; none: the field takes words, or is a flag.
  units: [string, number][];
  choices: string[];
}

export interface Kind {
  name: string;
  fields: Field[];
}

// An element as written: its name, and each setting with its value; a flag has an empty one.
export interface Part {
  name: string;
  settings: [string, string][];
}

export function partsOf(text: string): Part[] {
  return text.split("+").map((one) => {
    const [name, settings] = cut(one.trim(), ":");
    const each = settings.split(",").map((setting) => setting.trim()).filter((setting) => setting);
    return { name, settings: each.map((setting) => cut(setting, "=")) };
  });
}

export function written(parts: readonly Part[]): string {
  return parts.map(({ name, settings }) => {
    const each = settings.map(([key, value]) => (value === "" ? key : `${key}=${value}`));
    return each.length > 0 ? `${name}:${each.join(",")}` : name;
  }).join("+");
}

function cut(text: string, at: string): [string, string] {
  const place = text.indexOf(at);
  return place < 0 ? [text, ""] : [text.slice(0, place), text.slice(place + 1)];
}

// A number with its unit.
export interface Quantity {
  digits: number;
  unit: [string, number];
}

const NUMBER = /^(\d+\.?\d*|\.\d+)\s*(.*)$/;

// The quantity that a value states; null for what is none of the field.
export function quantityOf(field: Field, value: string): Quantity | null {
  const [, digits, rest] = NUMBER.exec(value.trim()) ?? [];
  if (digits === undefined || rest === undefined) return null;
  const name = isRate(field) ? rest.replace(/bit(\/s)?$/, "") : rest === "µs" ? "us" : rest;
  const unit = field.units.find(([known]) => known === name);
  return unit ? { digits: Number(digits), unit } : null;
}

// A limit may be packets or bytes: the field that a setting concerns is known by the unit of its value.
export function fieldOf(kind: Kind, key: string, value: string): Field | undefined {
  const named = kind.fields.filter((field) => field.name === key);
  return named.find((field) => quantityOf(field, value) !== null) ?? named[0];
}

export function isRate(field: Field): boolean {
  return field.units.some(([name]) => name === "k");
}

export function isShare(field: Field): boolean {
  return field.units.some(([name]) => name === "%");
}

// Numbers without a unit count nothing that a slider could move along, such as seeds.
export function isPlain(field: Field): boolean {
  return field.units.length === 1;
}

// A number as the text has it, in the largest unit of which it is at least one, with three digits.
export function textOf(field: Field, value: number): string {
  const rounded = isShare(field) ? value : Math.round(value);
  const decimal = field.units.filter(([name]) => !name.endsWith("iB"));
  const unit = decimal.find(([, factor]) => rounded >= factor) ?? decimal.at(-1);
  if (!unit) return String(rounded);
  const [name, factor] = unit;
  return `${plain(Number((rounded / factor).toPrecision(3)))}${name}`;
}

// Without an exponent, which the text form does not have.
function plain(value: number): string {
  return /e/.test(String(value)) ? value.toFixed(12).replace(/\.?0+$/, "") : String(value);
}

// The values that a slider moves along.
export interface Scale {
  low: number;
  high: number;
  log: boolean;
}

export const STEPS = 400;

const TIMES_AROUND = 10;
const LEAST_SHARE = 1e-4;
// Of fields that may be nothing, where they are nothing, by their first unit.
const ENDS_FROM_ZERO: Record<string, number> = { GB: 100e3, s: 100e6, packets: 100 };

// A range around a value: a tenth to ten times of it; all of a share; from zero where zero is a usual value.
export function scaleAround(field: Field, value: number): Scale {
  if (isShare(field)) return { low: Math.min(LEAST_SHARE, value || LEAST_SHARE), high: 1, log: true };
  if (field.name === "overhead") return { low: 0, high: Math.max(100, 2 * value), log: false };
  if (value <= 0) return { low: 0, high: ENDS_FROM_ZERO[field.units[0]?.[0] ?? ""] ?? 1, log: false };
  return { low: value / TIMES_AROUND, high: value * TIMES_AROUND, log: true };
}

export function isWithin({ low, high }: Scale, value: number): boolean {
  return value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9);
}

export function positionOf({ low, high, log }: Scale, value: number): number {
  const share = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.round(Math.min(1, Math.max(0, share)) * STEPS);
}

export function valueAt({ low, high, log }: Scale, position: number): number {
  const share = position / STEPS;
  return log ? low * (high / low) ** share : low + (high - low) * share;
}
