// Tables of flows whose rows choose what the charts show.

import { element } from "../figures/element";
import { plural } from "./words";

// Adds a box to each row of the tables whose rows are of flows; `changed` is called with the names that are chosen.
export class FlowRows {
  private readonly boxes = new Map<string, HTMLInputElement[]>();
  private readonly status = element("span", { role: "status" });
  private readonly only = element("button", { type: "button" }, "Explain these only");
  private readonly clear = element("button", { type: "button" }, "Clear");
  private readonly bar = element("p", { class: "chosen-flows", hidden: "" }, this.status, " ", this.only, " ", this.clear);

  constructor(
    view: HTMLElement, private chosen: readonly string[], private readonly most: number,
    changed: (flows: string[]) => void, explain: (flows: string[]) => void,
  ) {
    for (const table of view.querySelectorAll<HTMLElement>('table[data-of="flow"]')) this.enhance(table, changed);
    const charts = view.querySelector("#charts");
    charts?.querySelector(".controls")?.before(this.bar);
    this.only.addEventListener("click", () => explain([...this.chosen]));
    this.clear.addEventListener("click", () => this.set([], changed));
    this.show();
  }

  reset(changed: (flows: string[]) => void): void {
    if (this.chosen.length > 0) this.set([], changed);
  }

  private enhance(table: HTMLElement, changed: (flows: string[]) => void): void {
    for (const head of table.querySelectorAll<HTMLElement>("tbody th[scope=row]")) {
      const flow = head.textContent ?? "";
      const box = element("input", { type: "checkbox", "aria-label": `Show the charts of ${flow}` });
      box.addEventListener("change", () => {
        const others = this.chosen.filter((one) => one !== flow);
        this.set(box.checked ? [...others, flow].slice(-this.most) : others, changed);
      });
      head.prepend(box, " ");
      this.boxes.set(flow, [...(this.boxes.get(flow) ?? []), box]);
    }
  }

  private set(flows: string[], changed: (flows: string[]) => void): void {
    this.chosen = flows;
    this.show();
    changed(flows);
  }

  private show(): void {
    for (const [flow, boxes] of this.boxes) for (const box of boxes) box.checked = this.chosen.includes(flow);
    this.bar.hidden = this.chosen.length === 0;
    const charts = this.chosen.length === 1 ? `Charts of ${this.chosen[0] ?? ""} only.` : `Charts of ${plural(this.chosen.length, "flow")} only.`;
    this.status.textContent = this.chosen.length > 0 ? charts : "";
  }
}
