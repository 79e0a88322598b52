// The document of an analysis: charts that show the same time, tables that choose flows, packets of the time shown.

import { element } from "../figures/element";
import { problemOf, showDocument, type Page } from "./document";
import { FlowRows } from "./flow_rows";
import { Linked } from "./linked";
import { selectionForm } from "./open_forms";
import { linkOf, type OpenState } from "./open_state";
import { ModelPanel, type Offered } from "./model/panel";
import { PacketList } from "./packets";
import { PredictionPanel } from "./predict/panel";
import type { Additions, Remote } from "./remote";
import { ask, messageOf, query, type Values } from "./server";

// The server draws charts of no more flows at a time.
const MOST_FLOWS = 50;
// The address, and packets, follow a window when it rests.
const REST_MS = 200;

export interface Acts {
  zoom: (how: string) => void;
  toLoss: (step: 1 | -1) => void;
  packets: () => void;
  model: () => void;
  clear: () => void;
  print: () => Promise<void>;
}

interface Choices {
  choices: string[];
  filter: string;
}

export async function showAnalysis(view: HTMLElement, address: string, state: OpenState): Promise<Acts> {
  const analysis = new AnalysisView(view, address, state);
  await analysis.show();
  return analysis;
}

class AnalysisView implements Acts {
  private readonly linked: Linked;
  private packetList: PacketList | null = null;
  private readonly models: ModelPanel[] = [];
  private rows: FlowRows | null = null;
  private names: string[] = [];
  private ofPage: Record<string, string[]> = {};
  private timer = 0;
  private drawAll = (): Promise<void> => Promise.resolve();
  private readonly said = element("span", { class: "small", role: "status" });

  private readonly additions: Additions = {
    onWindow: (remote) => this.linked.moved(remote),
    pictures: (options) => (figure, kind, window) => `${this.address}/picture${query({
      ...options, columns: "", figure, kind, ...(window ? { low: window[0], high: window[1] } : {}),
    })}`,
  };

  constructor(private readonly view: HTMLElement, private readonly address: string, private readonly state: OpenState) {
    this.linked = new Linked(state, () => this.rest());
  }

  async show(): Promise<void> {
    const shown = await showDocument(this.view, this.address, {
      additions: this.additions,
      options: (): Values => ({ flow: this.state.flows }),
      choices: (part) => (part === "charts" && this.state.flows.length > 0 ? this.names : undefined),
      first: (part) => Math.min(this.state.shown[part] ?? 0, (this.namesOf(part)?.length ?? 1) - 1),
      onShown: (remote, section, choice) => this.shown(remote, section, choice),
      onPage: (page) => this.prepare(page),
    });
    this.drawAll = shown.drawAll;
    this.addModels().catch((reason: unknown) => this.view.querySelector("#verdict")?.append(problemOf(reason)));
    if (this.state.packets) this.showPackets();
  }

  // On paper, charts that were never in sight are there, too.
  async print(): Promise<void> {
    await this.drawAll();
    window.print();
  }

  zoom(how: string): void {
    this.linked.zoom(how);
  }

  toLoss(step: 1 | -1): void {
    this.said.textContent = this.linked.toLoss(step) ? "" : `No lost packet ${step > 0 ? "after" : "before"} this time.`;
  }

  packets(): void {
    if (!this.packetList) return;
    this.state.packets = true;
    this.write();
    this.showPackets();
    this.packetList.focus();
  }

  // The reader's own model beside the first verdict that has packets.
  model(): void {
    this.models[0]?.focus();
  }

  clear(): void {
    this.rows?.reset((flows) => void this.choose(flows));
  }

  private async prepare(page: Page): Promise<void> {
    this.ofPage = page.choices;
    this.view.querySelector("#verdict")?.after(this.tools(), selectionForm(this.state));
    if (page.packets) this.addPackets(page.packets);
    if (!page.choices["charts"]) return;
    if (this.state.flows.length > 0) await this.nameFlows();
    this.rows = new FlowRows(this.view, this.state.flows, MOST_FLOWS, (flows) => void this.choose(flows), (flows) => void this.explainOnly(flows));
  }

  private async addModels(): Promise<void> {
    const offered = await ask<Offered>("GET", `${this.address}/models`);
    for (const one of offered.verdicts) {
      const place = this.view.querySelector(one.verdict === 0 ? "#verdict" : `#verdict-${one.verdict}`);
      if (!place) continue;
      // Predictions are of the path of the headline.
      const prediction = one.verdict === 0 ? new PredictionPanel(this.address) : null;
      this.addModel(place, one, offered.elements, prediction);
      if (prediction) place.append(prediction.element);
    }
  }

  private addModel(
    place: Element, offered: Offered["verdicts"][number], elements: Offered["elements"], prediction: PredictionPanel | null,
  ): void {
    const changed = (text: string | null): void => {
      if (text === null) delete this.state.models[offered.verdict];
      else this.state.models[offered.verdict] = text;
      this.rest();
    };
    const panel = new ModelPanel(this.address, offered, elements, this.additions, changed, (remote) => this.linked.join(remote), prediction);
    place.append(panel.element);
    this.models.push(panel);
    const given = this.state.models[offered.verdict];
    if (given === undefined) return;
    if (place instanceof HTMLDetailsElement) place.open = true;
    panel.open(given);
  }

  // Files to hand on.
  private tools(): HTMLElement {
    const link = (words: string, kind: string): HTMLElement =>
      element("a", { class: "button", href: `${this.address}/document${query({ kind })}`, download: "" }, words);
    const print = element("button", { type: "button" }, "Print");
    print.addEventListener("click", () => void this.print());
    return element("p", { class: "hand-on screen" }, link("Report as one file", "html"), " ", link("JSON", "json"), " ", print);
  }

  private addPackets(kind: string): void {
    const close = (): void => {
      this.state.packets = false;
      this.packetList?.hide();
      this.write();
    };
    const lostOnly = (lost: boolean): void => {
      this.state.lost = lost;
      this.write();
      this.showPackets();
    };
    this.packetList = new PacketList(this.address, kind, lostOnly, close);
    const sections = [...this.view.querySelectorAll<HTMLElement>("#pair, #charts")].filter((one) => one.querySelector(".figures"));
    for (const section of sections) {
      const buttons = ([["Previous loss", -1], ["Next loss", 1]] as const).map(([words, step]) => {
        const button = element("button", { type: "button" }, words);
        button.addEventListener("click", () => this.toLoss(step));
        return button;
      });
      const packets = element("button", { type: "button" }, "Packets of this time");
      packets.addEventListener("click", () => this.packets());
      section.querySelector(".controls .buttons")?.append(...(section.querySelector("[data-zoom=focus]") ? buttons : []), packets);
    }
    this.view.querySelector("#charts .controls")?.append(this.said);
    sections.at(-1)?.after(this.packetList.element);
  }

  private showPackets(): void {
    void this.packetList?.show({ window: this.state.zoom.time ?? null, flows: this.state.flows, lost: this.state.lost });
  }

  private shown(remote: Remote, section: HTMLElement, choice: number): void {
    this.state.shown[section.id] = choice;
    this.linked.join(remote);
    this.write();
  }

  private rest(): void {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => {
      this.write();
      if (this.state.packets) this.showPackets();
    }, REST_MS);
  }

  private namesOf(part: string): string[] | undefined {
    return part === "charts" && this.state.flows.length > 0 ? this.names : this.ofPage[part];
  }

  // Names of the charts of the flows that are chosen; of a link with flows that are not there, none are.
  private async nameFlows(): Promise<Choices | null> {
    try {
      const found = await ask<Choices>("GET", `${this.address}/choices${query({ flow: this.state.flows })}`);
      this.names = found.choices;
      return found;
    } catch (reason) {
      const words = messageOf(reason);
      this.view.querySelector("#charts .controls")?.before(element("p", { class: "note", role: "alert" }, words));
      this.state.flows = [];
      return null;
    }
  }

  private async choose(flows: string[]): Promise<void> {
    this.state.flows = flows;
    delete this.state.shown["charts"];
    if (flows.length > 0) await this.nameFlows();
    this.write();
    const select = this.view.querySelector<HTMLSelectElement>("#charts select");
    const names = this.namesOf("charts") ?? [];
    select?.replaceChildren(...names.map((name, number) => element("option", { value: number }, name)));
    // Whoever listens to the list shows its first set of charts.
    select?.dispatchEvent(new Event("change"));
    if (this.state.packets) this.showPackets();
  }

  private async explainOnly(flows: string[]): Promise<void> {
    const { filter } = (await ask<Choices>("GET", `${this.address}/choices${query({ flow: flows })}`));
    const both = this.state.filter ? `(${this.state.filter}) and (${filter})` : filter;
    location.href = `/open${linkOf({ ...this.state, filter: both, flows: [], shown: {}, models: {} })}`;
  }

  private write(): void {
    history.replaceState(null, "", location.pathname + linkOf(this.state));
  }
}
