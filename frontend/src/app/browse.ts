// The library: search, order, choose; what is chosen is opened or compared.

import { element } from "../figures/element";
import { keys } from "./keyboard";
import { Selection } from "./selection";
import { ask, Failure, listen, query, upload, type Entry, type Found } from "./server";
import { duration, instant, plural, size } from "./words";

const PAGE = 100;

interface Column {
  key: string;
  title: string;
  isNumber?: boolean;
  write: (entry: Entry) => string;
}

const OWN: readonly Column[] = [
  { key: "started", title: "Started (UTC)", write: (entry) => (entry.started_s === null ? "" : instant(entry.started_s)) },
  { key: "name", title: "Test or file", write: (entry) => entry.name },
  { key: "title", title: "Title", write: (entry) => entry.title },
  { key: "duration", title: "Duration", isNumber: true, write: (entry) => (entry.duration_s === null ? "" : duration(entry.duration_s)) },
  { key: "status", title: "Status", write: (entry) => entry.problem || entry.status },
  { key: "size", title: "Size", isNumber: true, write: (entry) => (entry.kind === "capture" ? size(entry.size_bytes) : "") },
  { key: "tags", title: "Tags", write: (entry) => entry.tags.join(", ") },
];

// Everything that a link reproduces.
interface State {
  q: string;
  order: string;
  descending: boolean;
  page: number;
  columns: string[];
}

function stateOf(search: string): State {
  const given = new URLSearchParams(search);
  return {
    q: given.get("q") ?? "",
    order: given.get("order") ?? "started",
    descending: given.get("descending") !== "false",
    page: Math.max(0, Number(given.get("page") ?? 0) || 0),
    columns: given.getAll("column"),
  };
}

function linkOf(state: State): string {
  return query({
    q: state.q,
    order: state.order === "started" ? "" : state.order,
    descending: state.descending ? "" : "false",
    page: state.page || "",
    column: state.columns,
  });
}

export function browse(view: HTMLElement): void {
  const state = stateOf(location.search);
  const selection = new Selection(() => void show());
  const search = element("input", {
    type: "search", id: "search", placeholder: "cc:cubic rtt>50 title~before", "aria-label": "Search",
    spellcheck: "false", autocomplete: "off",
  });
  search.value = state.q;
  const status = element("p", { class: "small", role: "status" });
  const problem = element("p", { class: "note", role: "alert", hidden: "" });
  const table = element("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Entries" });
  const keyList = element("datalist", { id: "keys" });
  const column = element("input", { list: "keys", placeholder: "Add a column", "aria-label": "Add a column of the metadata" });
  const file = element("input", { type: "file", multiple: "", class: "visually-hidden", id: "file" });
  const drop = element("label", { for: "file", class: "drop" }, "Drop captures or recordings here, or choose files");
  view.replaceChildren(
    element("h1", {}, "Recordings and captures"),
    drop, file,
    element("div", { class: "controls" }, search, column, keyList),
    problem, selection.element, status, table,
  );

  let running: AbortController | null = null;
  const show = async (): Promise<void> => {
    running?.abort();
    running = new AbortController();
    history.replaceState(null, "", location.pathname + linkOf(state));
    try {
      const found = await ask<Found>("GET", `/api/library${query({
        q: state.q, sort: [`${state.descending ? "-" : ""}${state.order}`], offset: state.page * PAGE, limit: PAGE, column: state.columns,
      })}`, undefined, running.signal);
      problem.hidden = true;
      draw(found);
    } catch (reason) {
      if (!(reason instanceof Failure)) return;
      problem.textContent = reason.message;
      problem.hidden = false;
    }
  };

  const draw = (found: Found): void => {
    const columns = [...OWN, ...state.columns.map((key): Column => ({ key, title: key, write: (entry) => entry.values[key] ?? "" }))];
    const pages = Math.max(1, Math.ceil(found.count / PAGE));
    status.textContent = `${plural(found.count, "entry", "entries")}${pages > 1 ? `, page ${state.page + 1} of ${pages}` : ""}`;
    const head = element("tr", {}, element("th", { scope: "col" }, element("span", { class: "visually-hidden" }, "Chosen")), ...columns.map(headOf));
    const rows = found.entries.map((entry) => rowOf(entry, columns));
    table.replaceChildren(element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)), pager(pages));
  };

  const headOf = (column: Column): HTMLElement => {
    const isOrder = state.order === column.key;
    const button = element("button", { type: "button", class: "plain" }, `${column.title}${isOrder ? (state.descending ? " ▼" : " ▲") : ""}`);
    button.addEventListener("click", () => {
      state.descending = isOrder ? !state.descending : true;
      state.order = column.key;
      state.page = 0;
      void show();
    });
    const sort = isOrder ? (state.descending ? "descending" : "ascending") : "none";
    return element("th", { scope: "col", "aria-sort": sort, ...(column.isNumber ? { class: "number" } : {}) }, button);
  };

  const rowOf = (entry: Entry, columns: readonly Column[]): HTMLElement => {
    const name = entry.title || entry.name || entry.path;
    const box = element("input", { type: "checkbox", "aria-label": `Choose ${name}` });
    box.checked = selection.has(entry);
    box.addEventListener("change", () => selection.set(entry, box.checked));
    const cells = columns.map((column) => {
      const text = column.write(entry);
      if (column.key !== "name") return element("td", column.isNumber ? { class: "number" } : {}, text);
      const link = element("a", { href: `/open${query({ source: [entry.id] })}`, title: entry.path }, text || entry.path);
      return element("th", { scope: "row" }, link);
    });
    return element("tr", entry.problem ? { class: "bad" } : {}, element("td", {}, box), ...cells);
  };

  const pager = (pages: number): HTMLElement => {
    const bar = element("div", { class: "pager" });
    for (const [label, page] of [["Previous", state.page - 1], ["Next", state.page + 1]] as const) {
      const button = element("button", { type: "button" }, label);
      button.disabled = page < 0 || page >= pages;
      button.addEventListener("click", () => {
        state.page = page;
        void show();
      });
      if (pages > 1) bar.append(button);
    }
    return bar;
  };

  const take = async (files: Iterable<File>): Promise<void> => {
    const ids: string[] = [];
    try {
      for (const one of files) {
        ids.push(await upload(one, (share) => {
          status.textContent = `Sending ${one.name}: ${Math.round(share * 100)} %`;
        }));
      }
      if (ids.length > 0) location.href = `/open${query({ source: ids })}`;
    } catch (reason) {
      problem.textContent = reason instanceof Error ? reason.message : String(reason);
      problem.hidden = false;
    }
  };

  search.addEventListener("input", () => {
    state.q = search.value;
    state.page = 0;
    void show();
  });
  column.addEventListener("change", () => {
    const key = column.value.trim();
    column.value = "";
    if (!key) return;
    state.columns = state.columns.includes(key) ? state.columns.filter((one) => one !== key) : [...state.columns, key];
    void show();
  });
  column.addEventListener("focus", () => {
    void ask<{ keys: Record<string, number> }>("GET", "/api/library/keys").then(({ keys: known }) => {
      keyList.replaceChildren(...Object.keys(known).map((key) => element("option", { value: key })));
    });
  }, { once: true });
  const move = (by: number): void => {
    const rows = [...table.querySelectorAll<HTMLElement>("tbody th a")];
    const at = rows.indexOf(document.activeElement as HTMLElement);
    rows[Math.min(Math.max(at + by, 0), rows.length - 1)]?.focus();
  };
  keys([
    { key: "/", words: "Search", act: () => search.focus() },
    { key: "j", words: "Next entry", act: () => move(1) },
    { key: "k", words: "Previous entry", act: () => move(-1) },
    { key: "x", words: "Choose the entry, or not", act: () => document.activeElement?.closest("tr")?.querySelector<HTMLElement>("input")?.click() },
    { key: "e", words: "Explain the chosen entries", act: () => { if (selection.ids.length > 0) location.href = `/open${query({ source: selection.ids })}`; } },
    { key: "c", words: "Compare the chosen recordings", act: () => { if (selection.ids.length > 0) location.href = `/compare${query({ source: selection.ids })}`; } },
    { key: "u", words: "Choose none", act: () => { selection.clear(); void show(); } },
  ]);
  file.addEventListener("change", () => void take(file.files ?? []));
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  document.addEventListener("dragleave", () => drop.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    void take(event.dataTransfer?.files ?? []);
  });
  listen("library", () => void show(), () => void show());
  void show();
}
