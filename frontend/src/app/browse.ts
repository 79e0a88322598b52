// The library: search, order, choose; what is chosen is opened or compared.

import { element } from "../figures/element";
import "./browse/browse.css";
import { ColumnMenu, forgetKeys, isOfMetadata } from "./browse/columns";
import { Details } from "./browse/details";
import { Sending } from "./browse/sending";
import { linkOf, sorted, stateOf, type State } from "./browse/state";
import { Status, type LibraryStatus } from "./browse/status";
import { SearchField } from "./browse/suggesting";
import { Table } from "./browse/table";
import { ViewMenu } from "./browse/views";
import { keys } from "./keyboard";
import { Selection } from "./selection";
import { ask, Failure, listen, messageOf, query, type Entry, type Found } from "./server";
import { count, plural } from "./words";

const PAGE = 100;
// More than these are chosen by their identifiers only.
const MOST_ENTRIES = 1000;

export function browse(view: HTMLElement): void {
  new Browse(view);
}

class Browse {
  private readonly state: State = stateOf(location.search);
  private readonly selection = new Selection({
    onMarked: () => void this.show(),
    onChosen: () => {
      this.table.redrawChoice();
      this.state.chosen = this.selection.ids;
      this.remember(false);
    },
    onDetails: (entry) => this.open(entry),
  });
  private readonly table = new Table(this.selection, {
    onSort: (key, isAdded) => this.change({ sort: sorted(this.state.sort, key, isAdded), page: 0 }),
    onPage: (by) => this.turn(by),
  });
  private readonly search = new SearchField((q) => this.change({ q, page: 0 }), () => this.table.move(1));
  private readonly columns = new ColumnMenu(this.state.columns, (columns) => this.change({ columns }));
  private readonly views = new ViewMenu(this.state, ({ q, column, sort }) => {
    this.change({ q, columns: [...column], sort: [...sort], page: 0 });
    this.take();
  });
  private readonly details = new Details(this.state, { onPin: (key) => this.pin(key), onMove: () => this.remember(true) });
  private readonly problem = element("p", { class: "note", role: "alert", hidden: "" });
  private readonly sending = new Sending((words) => this.complain(words));
  private readonly status = new Status();
  private readonly found = element("p", { class: "small", role: "status" });
  private pages = 1;
  private running: AbortController | null = null;
  private soon = 0;
  private late = 0;

  constructor(view: HTMLElement) {
    this.search.input.value = this.state.q;
    view.replaceChildren(
      element("h1", {}, "Recordings and captures"),
      this.sending.file, this.sending.drop, this.sending.element,
      element("div", { class: "controls" }, this.search.element, this.columns.element, this.views.element),
      this.status.element, this.problem, this.details.element, this.found, this.table.element, this.selection.element,
    );
    this.listenForKeys();
    window.addEventListener("popstate", () => {
      Object.assign(this.state, stateOf(location.search));
      this.take();
      void this.show(false);
    });
    listen<LibraryStatus>("library", (status) => this.heard(status), () => this.showSoon());
    void ask<LibraryStatus>("GET", "/api/library/status").then((status) => this.status.show(status), () => undefined);
    void this.show(false).then(async () => this.chooseAgain());
  }

  // --- what the address says ---

  // Chosen entries that are no longer there are left out.
  private async chooseAgain(): Promise<void> {
    const asked = this.state.chosen.map(async (id) => ask<Entry>("GET", `/api/library/${encodeURIComponent(id)}`));
    const found = (await Promise.allSettled(asked)).filter((one) => one.status === "fulfilled").map((one) => one.value);
    if (found.length > 0) this.selection.setAll(found, true);
  }

  private change(change: Partial<State>): void {
    Object.assign(this.state, change);
    void this.show();
  }

  private remember(isStep: boolean): void {
    const address = location.pathname + linkOf(this.state);
    if (isStep) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  }

  // The controls as the state says.
  private take(): void {
    this.search.input.value = this.state.q;
    this.columns.show(this.state.columns);
  }

  private turn(by: number): void {
    const page = Math.min(Math.max(this.state.page + by, 0), this.pages - 1);
    if (page !== this.state.page) this.change({ page });
  }

  private pin(key: string): void {
    const { columns } = this.state;
    this.change({ columns: columns.includes(key) ? columns.filter((one) => one !== key) : [...columns, key] });
    this.columns.show(this.state.columns);
  }

  private open(entry: Entry): void {
    Object.assign(this.state, { entry: entry.id, table: "", row: 0 });
    this.remember(true);
    void this.details.show().then(() => {
      this.details.element.scrollIntoView({ block: "nearest" });
      this.details.element.focus();
    });
  }

  // --- what is found ---

  private async show(isRemembered = true): Promise<void> {
    this.running?.abort();
    const running = new AbortController();
    this.running = running;
    window.clearTimeout(this.late);
    if (isRemembered) this.remember(false);
    void this.details.show();
    const { q, sort, page, columns } = this.state;
    try {
      const path = `/api/library${query({ q, sort, offset: page * PAGE, limit: PAGE, column: columns.filter(isOfMetadata) })}`;
      const found = await ask<Found>("GET", path, undefined, running.signal);
      this.problem.hidden = true;
      this.draw(found);
    } catch (reason) {
      // While a search is typed, its beginnings may be none: only what stays is a mistake.
      if (reason instanceof Failure) this.late = window.setTimeout(() => this.refuse(reason), reason.status === 400 ? 400 : 0);
    } finally {
      if (this.running === running) this.running = null;
    }
  }

  private draw(found: Found): void {
    this.pages = Math.max(1, Math.ceil(found.count / PAGE));
    const page = this.pages > 1 ? `, page ${count(this.state.page + 1)} of ${count(this.pages)}` : "";
    const unknown = found.unknown_keys.map((key) => ` No entry has the key ${key}.`).join("");
    const all = element("button", { type: "button", class: "plain link" }, `Choose all ${count(found.count)}`);
    all.addEventListener("click", () => void this.chooseAll(found.count));
    this.found.replaceChildren(`${plural(found.count, "entry", "entries")}${page}.${unknown} `, ...(found.count > 0 ? [all] : []));
    this.table.draw(found.entries, this.state, this.pages);
  }

  private async chooseAll(many: number): Promise<void> {
    const { q, sort } = this.state;
    try {
      if (many <= MOST_ENTRIES) {
        const { entries } = await ask<Found>("GET", `/api/library${query({ q, sort, limit: MOST_ENTRIES })}`);
        this.selection.setAll(entries, true);
      } else this.selection.setIds((await ask<{ ids: string[] }>("GET", `/api/library/ids${query({ q })}`)).ids);
    } catch (reason) {
      this.complain(messageOf(reason));
    }
  }

  private heard(status: LibraryStatus): void {
    this.status.show(status);
    forgetKeys();
    this.showSoon();
  }

  // While files are indexed, events come often: the table follows now and then.
  private showSoon(): void {
    if (this.soon) return;
    this.soon = window.setTimeout(() => {
      this.soon = 0;
      if (this.running) this.showSoon();
      else void this.show(false);
    }, 600);
  }

  private refuse(reason: Failure): void {
    this.complain(reason.message);
    this.found.replaceChildren("The table shows what was found before.");
  }

  private complain(words: string): void {
    this.problem.textContent = words;
    this.problem.hidden = false;
  }

  // --- keys ---

  private listenForKeys(): void {
    const isHere = (): boolean => this.table.hasFocus;
    const isInRow = (): boolean => this.table.isInRow;
    const go = (address: string | null): void => {
      if (address) location.href = address;
    };
    keys([
      { key: "/", words: "Search; arrow down takes a suggestion, Enter goes to the table", act: () => this.search.input.focus() },
      { key: "ArrowDown", words: "Next entry; with Shift, choose the entries on the way", act: (event) => this.table.move(1, event.shiftKey), when: isHere },
      { key: "ArrowUp", words: "Previous entry; the same with Shift", act: (event) => this.table.move(-1, event.shiftKey), when: isHere },
      { key: "j", words: "Next entry", act: () => this.table.move(1) },
      { key: "k", words: "Previous entry", act: () => this.table.move(-1) },
      { key: " ", words: "Choose the entry, or not", act: () => this.table.toggle(), when: isInRow },
      { key: "x", words: "Choose the entry, or not", act: () => this.table.toggle() },
      { key: "Enter", words: "Open the entry", act: () => this.table.openEntry(), when: () => this.table.isInRow && !(document.activeElement instanceof HTMLAnchorElement) },
      { key: "i", words: "Details of the entry: its metadata, the tables of a store", act: () => { if (this.table.entry) this.open(this.table.entry); } },
      { key: "n", words: "Next page", act: () => this.turn(1) },
      { key: "p", words: "Previous page", act: () => this.turn(-1) },
      { key: "e", words: "Explain the chosen entries", act: () => go(this.selection.explained) },
      { key: "c", words: "Compare the chosen recordings", act: () => go(this.selection.compared) },
      { key: "u", words: "Choose none", act: () => this.selection.clear() },
    ]);
  }
}
