// Quantities as docs/style.md writes them.

const NO_BREAK = "\u00a0";

export function size(bytes: number): string {
  const [scale, unit] = bytes >= 1e9 ? [1e9, "GB"] : bytes >= 1e6 ? [1e6, "MB"] : bytes >= 1e3 ? [1e3, "kB"] : [1, "B"];
  return `${scale === 1 ? bytes : (bytes / scale).toPrecision(3)}${NO_BREAK}${unit}`;
}

export function duration(seconds: number): string {
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)}${NO_BREAK}h ${Math.round((seconds % 3600) / 60)}${NO_BREAK}min`;
  if (seconds >= 60) return `${Math.floor(seconds / 60)}${NO_BREAK}min ${Math.round(seconds % 60)}${NO_BREAK}s`;
  return `${Number(seconds.toPrecision(3))}${NO_BREAK}s`;
}

export function instant(seconds: number): string {
  const time = new Date(Math.min(Math.max(seconds * 1e3, -8.64e15), 8.64e15));
  return `${time.toISOString().slice(0, 19).replace("T", " ")}`;
}

export function count(number: number): string {
  return Math.round(number).toString().replace(/\B(?=(\d{3})+$)/g, NO_BREAK);
}

export function plural(number: number, one: string, many = `${one}s`): string {
  return `${count(number)} ${number === 1 ? one : many}`;
}
