// Rows of connections as the server sends them, searched and sorted as it does.

export interface State {
  time_s: number;
  total: number;
  found: number;
  columns: string[];
  rows: (string | number | null)[][];
  limits: [string, number][];
  warnings: string[];
}

export type Row = Record<string, string | number | null>;

export interface Column {
  name: string;
  title: string;
  // Of a number: its digits, 0 for whole ones.
  digits?: number;
}

const SEARCHED = ["local", "remote", "process", "pid", "state", "limit", "congestion_control"];

export function rowsOf({ columns, rows }: Pick<State, "columns" | "rows">): Row[] {
  return rows.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at] ?? null])));
}

// All words must be in a row.
export function matches(row: Row, words: string): boolean {
  const text = SEARCHED.map((name) => row[name] ?? "").join(" ").toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

// By a column, "-" before it for the greatest first; what is unknown comes last.
export function sorted(rows: readonly Row[], by: string): Row[] {
  if (!by) return [...rows];
  const [name, sign] = by.startsWith("-") ? [by.slice(1), -1] : [by, 1];
  return [...rows].sort((one, other) => {
    const [a, b] = [one[name] ?? null, other[name] ?? null];
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return sign * (a < b ? -1 : a > b ? 1 : 0);
  });
}
