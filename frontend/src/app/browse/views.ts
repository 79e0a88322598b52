// Saved views: a search with its columns and its order, under a name.

import { element } from "../../figures/element";
import { ask, messageOf, query } from "../server";
import { menuOf } from "./menu";
import { linkOf, type State, type View } from "./state";

type Views = Record<string, View>;

export class ViewMenu {
  readonly element: HTMLDetailsElement;
  private readonly list = element("ul", { class: "plain-list" });
  private readonly problem = element("p", { role: "alert", class: "note", hidden: "" });
  private readonly name = element("input", { id: "view-name", maxlength: 100, autocomplete: "off", required: "" });
  private readonly save = element("button", {}, "Save");
  private views: Views = {};
  private replaced = "";

  constructor(private readonly state: State, private readonly onChosen: (view: View) => void) {
    const form = element("form", {}, element("label", { for: this.name.id }, "Save this search, its columns and its order as"), this.name, this.save);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.keep(this.name.value.trim());
    });
    this.name.addEventListener("input", () => this.unask());
    this.element = menuOf("Views", this.list, form, this.problem);
    this.element.addEventListener("toggle", () => {
      if (this.element.open) void this.act(async () => this.show(await ask("GET", "/api/views")));
    });
  }

  private show({ views }: { views: Views }): void {
    this.views = views;
    const lines = Object.entries(views).map(([name, view]) => this.lineOf(name, view));
    this.list.replaceChildren(...(lines.length > 0 ? lines : [element("li", { class: "small" }, "No view is saved yet.")]));
  }

  private lineOf(name: string, view: View): HTMLElement {
    const href = `/browse${linkOf({ ...this.state, q: view.q, columns: view.column, sort: view.sort, page: 0, entry: "", table: "", row: 0, chosen: [] })}`;
    const link = element("a", { href, title: view.q }, name);
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.element.open = false;
      this.onChosen(view);
    });
    const remove = element("button", { type: "button", "aria-label": `Remove the view ${name}` }, "✕");
    remove.addEventListener("click", () => {
      void this.act(async () => this.show(await ask("DELETE", `/api/views${query({ name })}`)));
    });
    return element("li", {}, link, element("span", { class: "buttons" }, remove));
  }

  private async keep(name: string): Promise<void> {
    if (!name) return;
    if (name in this.views && this.replaced !== name) {
      this.replaced = name;
      this.save.textContent = "Replace the view of this name";
      return;
    }
    const view: View = { q: this.state.q, column: this.state.columns, sort: this.state.sort };
    await this.act(async () => {
      this.show(await ask("PUT", "/api/views", { name, ...view }));
      this.name.value = "";
      this.unask();
    });
  }

  private unask(): void {
    this.replaced = "";
    this.save.textContent = "Save";
  }

  private async act(act: () => Promise<void>): Promise<void> {
    try {
      await act();
      this.problem.hidden = true;
    } catch (reason) {
      this.problem.textContent = messageOf(reason);
      this.problem.hidden = false;
    }
  }
}
