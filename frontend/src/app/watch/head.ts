// The titles of a table, by which its rows are sorted; the order is in the address.

import { element } from "../../figures/element";
import type { Address } from "./address";
import type { Column } from "./rows";

type Order = "ascending" | "descending" | "none";

export class Head {
  readonly element = element("tr");

  // `name` is that of the order in the address; `changed` is called with a new one.
  constructor(private readonly columns: readonly Column[], private readonly address: Address, private readonly name: string, private readonly changed: () => void) {
    this.draw();
  }

  // A column, "-" before it for the greatest first; empty without one.
  get sort(): string {
    const asked = this.address.get(this.name);
    return this.columns.some(({ name }) => name === asked.replace("-", "")) ? asked : "";
  }

  private draw(): void {
    this.element.replaceChildren(...this.columns.map((column) => {
      const order: Order = this.sort === column.name ? "ascending" : this.sort === `-${column.name}` ? "descending" : "none";
      const arrow = { ascending: " ↑", descending: " ↓", none: "" }[order];
      const button = element("button", { type: "button", class: "plain" }, column.title, arrow);
      button.addEventListener("click", () => this.sortBy(column, order));
      return element("th", { scope: "col", "aria-sort": order, class: column.digits === undefined ? "" : "number" }, button);
    }));
  }

  // Numbers: greatest first; words: from A; a third click restores the order of the server.
  private sortBy(column: Column, order: Order): void {
    const cycle: readonly Order[] = column.digits === undefined ? ["none", "ascending", "descending"] : ["none", "descending", "ascending"];
    const next = cycle[(cycle.indexOf(order) + 1) % cycle.length];
    this.address.set(this.name, next === "none" ? "" : next === "descending" ? `-${column.name}` : column.name);
    this.draw();
    this.element.querySelectorAll("button")[this.columns.indexOf(column)]?.focus();
    this.changed();
  }
}
