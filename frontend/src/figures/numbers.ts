// Numbers and times in words, at axes and at the cursor.

import type { Axis } from "./figure";

const PREFIXES: readonly [number, string][] = [[1e12, " T"], [1e9, " G"], [1e6, " M"]];

// A number with few digits: large ones with the prefix of a unit, small ones as powers.
export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return "";
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-3)) return value.toExponential().replace("e+", "e");
  const [scale, prefix] = PREFIXES.find(([least]) => size >= least) ?? (size >= 1e4 ? [1e3, " k"] : [1, ""]);
  return (value / scale).toLocaleString("en", { maximumSignificantDigits: 6 }) + prefix;
}

export function number(value: number): string {
  return Number(value.toPrecision(6)).toLocaleString("en", { maximumSignificantDigits: 6 });
}

// Seconds since the Unix epoch as UTC: days as dates, and below the first time of each day its date.
export function times(places: readonly number[]): string[] {
  const [first, second] = places;
  const step = first !== undefined && second !== undefined ? second - first : 86400;
  let day = "";
  return places.map((place) => {
    const [date = "", time = ""] = iso(place).split(/[T.]/);
    if (step >= 86400) return date;
    const words = step >= 60 ? time.slice(0, 5) : step >= 1 ? time : `${time}.${iso(place).slice(20, 23)}`;
    const isFirst = date !== day;
    day = date;
    return isFirst ? `${words}\n${date}` : words;
  });
}

// What a calendar cannot hold is shown at its end.
function iso(seconds: number): string {
  return new Date(Math.min(Math.max(seconds * 1e3, -8.64e15), 8.64e15)).toISOString();
}

// Powers of ten between two ends, no more than have room; of a short interval also what lies between them.
export function powers(low: number, high: number): number[] {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const isShort = last - first < 2;
  const step = isShort ? 1 : Math.ceil((last - first + 1) / 7);
  const found: number[] = [];
  for (let power = first - 1; power <= last; power += step) {
    for (const factor of isShort ? [1, 2, 5] : [1]) found.push(factor * 10 ** (power + (step > 1 ? 1 : 0)));
  }
  return found.filter((value) => value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9));
}

export function unitOf(axis: Axis): string {
  if (axis.scale === "time") return "";
  const unit = /\(([^);]+)[);]/.exec(axis.title)?.[1];
  return unit ? ` ${unit.split(" since")[0]}` : "";
}

// A value of an axis in words; `exactly` for times that differ by microseconds.
export function inWords(axis: Axis, value: number, exactly = false): string {
  const [first, ...others] = axis.words;
  if (first) return others.reduce((best, one) => (Math.abs(one[0] - value) < Math.abs(best[0] - value) ? one : best), first)[1];
  if (axis.scale === "time") return iso(value).replace("T", " ").replace(/(:00)?\.000Z/, "");
  if (axis.zeros && value < axis.zeros[1]) return `0${unitOf(axis)}`;
  return exactly ? `${value.toFixed(6)} s` : number(value) + unitOf(axis);
}
