// Everything that a link to the library reproduces.

import { query } from "../server";

export const DEFAULT_COLUMNS: readonly string[] = ["started", "name", "title", "duration", "status", "size", "tags"];
export const DEFAULT_SORT: readonly string[] = ["-started"];

export interface View {
  q: string;
  column: string[];
  sort: string[];
}

export interface State {
  q: string;
  // Keys; "-" before one is the descending order.
  sort: string[];
  page: number;
  columns: string[];
  // The entry with its details shown, and the table of a store.
  entry: string;
  table: string;
  row: number;
  // Identifiers of the chosen entries, where these are few.
  chosen: string[];
}

// Of more, the address would be too long.
export const MOST_CHOSEN = 50;

export function stateOf(search: string): State {
  const given = new URLSearchParams(search);
  const columns = given.getAll("column");
  const sort = given.getAll("sort").slice(0, 8);
  return {
    q: given.get("q") ?? "",
    sort: sort.length > 0 ? sort : [...DEFAULT_SORT],
    page: whole(given.get("page")),
    columns: columns.length > 0 ? [...new Set(columns)].slice(0, 40) : [...DEFAULT_COLUMNS],
    entry: given.get("entry") ?? "",
    table: given.get("table") ?? "",
    row: whole(given.get("row")),
    chosen: [...new Set(given.getAll("chosen"))].slice(0, MOST_CHOSEN),
  };
}

export function linkOf(state: State): string {
  return query({
    q: state.q,
    sort: isSame(state.sort, DEFAULT_SORT) ? [] : state.sort,
    page: state.page || "",
    column: isSame(state.columns, DEFAULT_COLUMNS) ? [] : state.columns,
    entry: state.entry,
    table: state.table,
    row: state.row || "",
    chosen: state.chosen.length <= MOST_CHOSEN ? state.chosen : [],
  });
}

// A click on a heading: orders by it alone, or by it after the others; a further one turns the order round.
export function sorted(sort: readonly string[], key: string, isAdded: boolean): string[] {
  const had = sort.find((one) => one.replace(/^-/, "") === key);
  const turned = had === undefined ? `-${key}` : had.startsWith("-") ? key : `-${key}`;
  if (!isAdded) return [had !== undefined && sort.length > 1 ? had : turned];
  return had === undefined ? [...sort, turned].slice(-8) : sort.map((one) => (one === had ? turned : one));
}

function whole(text: string | null): number {
  const found = Number(text ?? 0);
  return Number.isInteger(found) && found > 0 ? Math.min(found, 1e6) : 0;
}

function isSame(one: readonly string[], other: readonly string[]): boolean {
  return one.length === other.length && one.every((value, at) => value === other[at]);
}
