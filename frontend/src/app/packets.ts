// The packets of the window that the charts show: of one capture with their fates, of two with what became of them.

import { copyOnClick } from "../copying";
import { element } from "../figures/element";
import type { Ends } from "../figures/figure";
import { problemOf } from "./document";
import { ask, query } from "./server";
import { count, duration, plural } from "./words";

export type Row = Record<string, string | number | boolean | null>;

interface Rows {
  rows: Row[];
  has_more: boolean;
  commands: string[];
}

export interface Asked {
  window: Ends | null;
  flows: readonly string[];
  lost: boolean;
}

interface Column {
  title: string;
  isNumber?: boolean;
  write: (row: Row, first: bigint) => string;
}

// Everything that fits nanoseconds.
const ALL: Ends = [0, 9.2e9];
const UNKNOWN = "–";

const text = (name: string) => (row: Row): string => (row[name] === null || row[name] === undefined ? UNKNOWN : String(row[name]));
const number = (name: string) => (row: Row): string => (typeof row[name] === "number" ? count(row[name]) : UNKNOWN);

const PACKETS: readonly Column[] = [
  { title: "No.", isNumber: true, write: text("frame_number") },
  { title: "Time (s)", isNumber: true, write: (row, first) => since(row["time_ns"], first) },
  { title: "From", write: (row) => end(row, "source") },
  { title: "To", write: (row) => end(row, "destination") },
  { title: "Protocol", write: text("protocol") },
  { title: "Sequence", isNumber: true, write: text("sequence") },
  { title: "Acknowledgment", isNumber: true, write: text("acknowledgment") },
  { title: "Payload (bytes)", isNumber: true, write: number("payload_bytes") },
  { title: "Flags", write: text("flags") },
  { title: "Fate", write: text("fate") },
];

// Of more than two captures each row says between which it is.
const CROSSINGS: readonly Column[] = [
  { title: "Left (s)", isNumber: true, write: (row, first) => since(row["sent_ns"], first) },
  { title: "Captures", write: text("between") },
  { title: "Direction", write: text("direction") },
  { title: "No. in the first", isNumber: true, write: text("frame_number_1") },
  { title: "No. in the second", isNumber: true, write: text("frame_number_2") },
  { title: "Transit", isNumber: true, write: (row) => (typeof row["transit_ns"] === "number" ? `${(row["transit_ns"] / 1e6).toFixed(3)}\u00a0ms` : UNKNOWN) },
  { title: "Fate", write: text("crossing") },
  { title: "Flow", write: text("name") },
  { title: "Sequence", isNumber: true, write: text("sequence") },
  { title: "Payload (bytes)", isNumber: true, write: number("payload_bytes") },
  { title: "Seen at the first (s)", isNumber: true, write: (row, first) => since(row["time_1_ns"], first) },
  { title: "Seen at the second (s)", isNumber: true, write: (row, first) => since(row["time_2_ns"], first) },
];

// A moment since the first packet of the window, exact to a microsecond; as text it has all its digits.
export function since(moment: Row[string] | undefined, first: bigint): string {
  if (typeof moment !== "string") return UNKNOWN;
  const passed = BigInt(moment) - first;
  const positive = passed < 0n ? -passed : passed;
  const microseconds = positive / 1000n;
  return `${passed < 0n ? "−" : ""}${microseconds / 1_000_000n}.${(microseconds % 1_000_000n).toString().padStart(6, "0")}`;
}

function end(row: Row, name: "source" | "destination"): string {
  const [address, port] = [row[name], row[`${name}_port`]];
  if (typeof address !== "string") return UNKNOWN;
  if (port === null || port === undefined) return address;
  return address.includes(":") ? `[${address}]:${String(port)}` : `${address}:${String(port)}`;
}

export class PacketList {
  readonly element = element("section", { id: "packets", "aria-label": "Packets", hidden: "" });
  private readonly heading = element("h2", { tabindex: -1 }, "Packets of this time");
  private readonly status = element("p", { class: "small", role: "status" });
  private readonly place = element("div");
  private readonly lost = element("input", { type: "checkbox", id: "lost-only" });
  private asked = 0;

  // `kind` is that of the document: packets of one capture, or crossings between two.
  constructor(private readonly address: string, private readonly kind: string, onLost: (lost: boolean) => void, onClose: () => void) {
    const close = element("button", { type: "button" }, "Close");
    close.addEventListener("click", onClose);
    this.lost.addEventListener("change", () => onLost(this.lost.checked));
    const option = element("span", { class: "option" }, this.lost, element("label", { for: "lost-only" }, "Lost packets only"));
    this.element.append(this.heading, element("p", { class: "packet-options" }, ...(kind === "crossings" ? [option, " "] : []), close), this.status, this.place);
  }

  focus(): void {
    this.heading.focus();
    this.element.scrollIntoView({ block: "start" });
  }

  async show({ window, flows, lost }: Asked): Promise<void> {
    this.element.hidden = false;
    this.lost.checked = lost;
    this.asked += 1;
    const mine = this.asked;
    this.status.textContent = "Reading packets…";
    // The ends are rounded: a microsecond more at each side keeps the packets at them.
    const [begin, last] = window ? [Math.max(0, window[0] - 1e-6), window[1] + 1e-6] : ALL;
    try {
      const found = await ask<Rows>("GET", `${this.address}/${this.kind}${query({
        begin: begin.toFixed(6), end: last.toFixed(6), flow: flows, lost: this.kind === "crossings" && lost ? true : "",
      })}`);
      if (mine === this.asked) this.draw(found, window);
    } catch (reason) {
      if (mine !== this.asked) return;
      this.status.textContent = "";
      this.place.replaceChildren(problemOf(reason));
    }
  }

  hide(): void {
    this.asked += 1;
    this.element.hidden = true;
  }

  private draw(found: Rows, window: Ends | null): void {
    const columns = this.kind === "crossings" ? CROSSINGS : PACKETS;
    const moment = found.rows[0]?.[this.kind === "crossings" ? "sent_ns" : "time_ns"];
    const first = typeof moment === "string" ? BigInt(moment) : 0n;
    const times = typeof moment === "string" ? ` Times count from the first one, ${iso(BigInt(moment))} UTC.` : "";
    this.status.textContent = `${countOf(found, window)}${times}`;
    const head = element("tr", {}, ...columns.map((one) => element("th", { scope: "col", ...(one.isNumber ? { class: "number" } : {}) }, one.title)));
    const rows = found.rows.map((row) => {
      const cells = columns.map((one) => element("td", one.isNumber ? { class: "number" } : {}, one.write(row, first)));
      return element("tr", isLost(row) ? { class: "lost" } : {}, ...cells);
    });
    const table = element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
    const commands = found.commands.map((command) => element(
      "div", { class: "command" }, element("pre", { tabindex: 0 }, element("code", {}, command)),
      element("button", { type: "button", class: "copy", "aria-label": `Copy the command: ${command}` }, "Copy"),
    ));
    this.place.replaceChildren(
      ...(found.rows.length > 0 ? [element("div", { class: "scroll wide tall", tabindex: 0, role: "region", "aria-label": "Packets" }, table)] : []),
      ...(commands.length > 0 ? [element("p", { class: "small" }, "The same in a terminal:"), ...commands] : []),
    );
    copyOnClick(this.place);
  }
}

export function countOf({ rows, has_more: hasMore }: Pick<Rows, "rows" | "has_more">, window: Ends | null): string {
  const packets = plural(rows.length, "packet");
  const of = window ? ` in ${duration(window[1] - window[0])}` : "";
  return hasMore ? `The first ${packets}${of}; zoom in to see the others.` : `${packets}${of}.`;
}

function isLost(row: Row): boolean {
  return [row["fate"], row["crossing"]].some((fate) => typeof fate === "string" && fate.endsWith("lost"));
}

function iso(moment: bigint): string {
  const seconds = moment / 1_000_000_000n;
  const micro = ((moment % 1_000_000_000n) / 1000n).toString().padStart(6, "0");
  return `${new Date(Number(seconds) * 1e3).toISOString().slice(0, 19).replace("T", " ")}.${micro}`;
}
