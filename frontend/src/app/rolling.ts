// The rolling capture of this host: packets of the last seconds, which triggers or the reader keep and have explained.

import { element } from "../figures/element";
import { ask, listen, messageOf, query } from "./server";
import { count, duration, instant, plural, size } from "./words";
import "./rolling.css";

export interface Kept {
  number: number;
  paths: string[];
  kind: string;
  why: string;
  time_s: number;
  state: "explaining" | "explained" | "failed";
  verdict: string;
  took_s: number | null;
  problem: string;
  size_bytes: number;
  entries?: string[];
}

export interface State {
  running: boolean;
  interface: string;
  filter: string;
  seconds: number;
  most_bytes: number;
  triggers: { loss_packets: number | null; delay_s: number | null; limits: string[] };
  packets: number;
  buffered_s: number;
  buffered_bytes: number;
  dropped: number;
  unwritten: number;
  pending: string;
  skipped: number;
  problem: string;
  messages: string[];
  kept: Kept[];
}

interface Answer {
  state: State | Record<string, never>;
  interfaces: string[];
  limits: string[];
  refused: string;
}

// The fields by their names in the address; each with what it has at first.
const FIELDS = {
  "roll-interface": "any",
  "roll-filter": "",
  "roll-seconds": "30",
  "roll-mb": "256",
  "roll-loss": "3",
  "roll-delay": "",
  "roll-hold": "60",
} as const;
type Name = keyof typeof FIELDS;
const LIMITS = "roll-verdict";

export function rolling(section: HTMLElement): Rolling {
  const made = new Rolling(section);
  void made.start();
  return made;
}

export class Rolling {
  private readonly inputs: Record<Name, HTMLInputElement | HTMLSelectElement>;
  private readonly limits = element("div", { class: "rolling-limits", role: "group", "aria-label": "Trigger: what limits a connection" });
  private readonly fields = element("fieldset", { class: "rolling-fields" }, element("legend", {}, "Settings of the rolling capture"));
  private readonly startButton = element("button", { type: "submit", class: "primary" }, "Start capturing");
  private readonly keepButton = element("button", { type: "button" }, "Keep now");
  private readonly stopButton = element("button", { type: "button" }, "Stop");
  private readonly state = element("p", { class: "rolling-state" });
  private readonly status = element("p", { role: "status", class: "small" });
  private readonly problem = element("p", { class: "note", role: "alert", hidden: "" });
  private readonly list = element("ol", { class: "rolling-kept", "aria-label": "Kept captures, the newest first" });
  private drawn = "";
  private isRunning = false;

  constructor(private readonly section: HTMLElement) {
    const number = (id: Name, least: string, most: string, step = "any"): HTMLInputElement =>
      element("input", { id, type: "number", min: least, max: most, step });
    this.inputs = {
      "roll-interface": element("select", { id: "roll-interface" }),
      "roll-filter": element("input", { id: "roll-filter", placeholder: "tcp and port 443; all if empty", spellcheck: "false", maxlength: 1000 }),
      "roll-seconds": number("roll-seconds", "1", "3600"),
      "roll-mb": number("roll-mb", "1", "10000"),
      "roll-loss": number("roll-loss", "1", "1000000", "1"),
      "roll-delay": number("roll-delay", "0.001", "3599999"),
      "roll-hold": number("roll-hold", "0", "86400"),
    };
  }

  // Keys of the view that it stands in.
  readonly keys = [
    { key: "K", words: "Keep the rolling capture now", act: (): void => this.keepButton.click(), when: (): boolean => this.isRunning },
  ];

  async start(): Promise<void> {
    this.section.setAttribute("aria-labelledby", "rolling-title");
    const title = element("h2", { id: "rolling-title" }, "Rolling capture");
    try {
      const answer = await ask<Answer>("GET", "/api/rolling");
      const about = element("p", {}, "Packets of the last seconds stay on disk. A trigger, or you, keep them with what follows; the verdict comes within seconds.");
      this.section.replaceChildren(title, about, ...(answer.refused ? [element("p", { class: "note" }, answer.refused)] : this.controls(answer)));
      if (answer.refused) return;
      this.show(answer.state);
      listen<State>("rolling", (state) => this.show(state), () => void this.again());
    } catch (reason) {
      this.section.replaceChildren(title, element("p", { class: "note", role: "alert" }, messageOf(reason)));
    }
  }

  private controls(answer: Answer): HTMLElement[] {
    const given = new URLSearchParams(location.search);
    this.inputs["roll-interface"].replaceChildren(...answer.interfaces.map((one) => element("option", { value: one }, one)));
    for (const [name, input] of this.each()) input.value = given.get(name) ?? FIELDS[name];
    if (!this.inputs["roll-interface"].value) this.inputs["roll-interface"].value = FIELDS["roll-interface"];
    const wanted = given.getAll(LIMITS);
    this.limits.replaceChildren(...answer.limits.map((one) => {
      const box = element("input", { type: "checkbox", value: one, ...(wanted.includes(one) ? { checked: "" } : {}) });
      return element("label", { class: "option" }, box, one);
    }));
    const field = (name: Name, label: string): HTMLElement => element("p", { class: "field" }, element("label", { for: name }, label), this.inputs[name]);
    this.fields.append(
      field("roll-interface", "Interface"), field("roll-filter", "Only packets"), field("roll-seconds", "Time to hold (s)"), field("roll-mb", "Bytes to hold (MB)"),
      field("roll-loss", "Trigger: segments retransmitted in 1 s"), field("roll-delay", "Trigger: RTT above (ms)"), field("roll-hold", "Time between triggers (s)"),
      element("div", { class: "field" }, element("span", {}, "Trigger: limited by"), this.limits),
    );
    const buttons = element("p", { class: "buttons" }, this.startButton, this.keepButton, this.stopButton);
    const form = element("form", { "aria-label": "Rolling capture" }, this.fields, buttons);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.act("Starting…", "/api/rolling", this.wanted());
    });
    form.addEventListener("change", () => this.keepAddress());
    this.keepButton.addEventListener("click", () => void this.act("", "/api/rolling/keep", {}));
    this.stopButton.addEventListener("click", () => void this.act("Ending: what is kept is explained first…", "/api/rolling/stop", {}));
    return [form, this.problem, this.state, this.status, this.list];
  }

  private each(): [Name, HTMLInputElement | HTMLSelectElement][] {
    return Object.entries(this.inputs) as [Name, HTMLInputElement | HTMLSelectElement][];
  }

  private chosen(): string[] {
    return [...this.limits.querySelectorAll<HTMLInputElement>("input:checked")].map(({ value }) => value);
  }

  private wanted(): Record<string, unknown> {
    const value = (name: Name): string => this.inputs[name].value.trim();
    const number = (name: Name): number | null => (value(name) === "" ? null : Number(value(name)));
    const [delay, bytes] = [number("roll-delay"), number("roll-mb")];
    return {
      interface: value("roll-interface"), filter: value("roll-filter"), limits: this.chosen(), loss_packets: number("roll-loss"),
      delay_s: delay === null ? null : delay / 1e3,
      ...given({ seconds: number("roll-seconds"), max_bytes: bytes === null ? null : Math.round(bytes * 1e6), hold_off_s: number("roll-hold") }),
    };
  }

  private keepAddress(): void {
    const rest = new URLSearchParams(location.search);
    for (const [name, input] of this.each()) {
      // An empty trigger is a choice, too.
      if (input.value === FIELDS[name]) rest.delete(name);
      else rest.set(name, input.value);
    }
    rest.delete(LIMITS);
    for (const one of this.chosen()) rest.append(LIMITS, one);
    const text = rest.toString();
    history.replaceState(null, "", location.pathname + (text ? `?${text}` : "") + location.hash);
  }

  private async act(words: string, path: string, body: unknown): Promise<void> {
    this.status.textContent = words;
    this.problem.hidden = true;
    try {
      this.show((await ask<Answer>("POST", path, body)).state);
      this.status.textContent = "";
    } catch (reason) {
      this.status.textContent = "";
      this.problem.textContent = messageOf(reason);
      this.problem.hidden = false;
    }
  }

  private async again(): Promise<void> {
    try {
      this.show((await ask<Answer>("GET", "/api/rolling")).state);
    } catch {
      // The stream of events connects again, and asks again.
    }
  }

  private show(state: State | Record<string, never>): void {
    this.isRunning = state.running === true;
    // The form may be of another capture than the one that runs: the words have its settings.
    this.fields.hidden = this.startButton.hidden = this.isRunning;
    this.keepButton.hidden = this.stopButton.hidden = !this.isRunning;
    this.keepButton.disabled = Boolean(state.pending);
    if (!("packets" in state)) {
      this.state.textContent = "No packets are captured now.";
      return;
    }
    this.state.textContent = inWords(state as State);
    const said = [state.problem, ...state.messages.slice(-1)].filter((one) => one);
    const drawn = JSON.stringify([state.kept, said]);
    // Screen readers and the reader's focus are not disturbed each second.
    if (drawn === this.drawn) return;
    this.drawn = drawn;
    this.status.textContent = said.join(" ");
    this.list.replaceChildren(...[...state.kept].reverse().map(item));
  }
}

export function inWords(state: State): string {
  const parts = [
    `${duration(state.buffered_s)} and ${size(state.buffered_bytes)} of ${state.interface}${state.filter ? ` (${state.filter})` : ""} on disk`,
    `${plural(state.packets, "packet")} captured`,
    `${count(state.dropped)} dropped by the kernel`,
  ];
  if (state.unwritten) parts.push(`${count(state.unwritten)} not written, since the disk is full`);
  if (state.skipped) parts.push(`${plural(state.skipped, "trigger")} skipped`);
  const { loss_packets: loss, delay_s: delay, limits } = state.triggers;
  const set = [
    ...(loss === null ? [] : [`${plural(loss, "retransmission")} within 1 s`]),
    ...(delay === null ? [] : [`RTT above ${duration(delay)}`]),
    ...limits.map((one) => `limited by ${one}`),
  ];
  const head = state.running ? "Capturing" : "Ended";
  return `${head}: ${parts.join(", ")}. Triggers: ${set.join(", ") || "none, only you keep"}.${state.pending ? ` Trigger: ${state.pending}; what follows is being captured.` : ""}`;
}

function item(kept: Kept): HTMLElement {
  const took = kept.took_s === null ? "" : ` Verdict ${duration(kept.took_s)} after the trigger.`;
  const verdict = kept.verdict || (kept.state === "explaining" ? "Explaining…" : kept.problem);
  const links = kept.entries?.length
    ? [element("p", {}, element("a", { href: `/open${query({ source: kept.entries })}` }, "Open"), ` ${kept.paths.map((path) => path.split("/").pop() ?? path).join(", ")}, ${size(kept.size_bytes)}`)]
    : [];
  return element(
    "li", { class: kept.state },
    element("p", {}, element("strong", {}, verdict)),
    element("p", { class: "small" }, `${instant(kept.time_s)} UTC, ${kept.kind === "hand" ? "kept" : `${kept.kind}:`} ${kept.why}.${took}`),
    ...links,
  );
}

function given(values: Record<string, number | null>): Record<string, number> {
  return Object.fromEntries(Object.entries(values).filter((one): one is [string, number] => one[1] !== null));
}
