// Figures that the server holds: coarse at first, and finer for the window that the reader looks at.

import { decode, unpacked, type Choice, type Data, type Ends, type Layer, type Style } from "../figures/figure";
import { showChoice, type Shown } from "../figures/figures";
import type { Pictures } from "../figures/saving";
import { askBytes, query, type Values } from "./server";

// The window changes often while the reader zooms: the last one is asked for.
const REFINE_MS = 30;

// What a view adds to figures.
export interface Additions {
  // Called with a new window of time, and when figures are shown first.
  onWindow?: (remote: Remote) => void;
  // Addresses of pictures, given the options of the figures that are shown.
  pictures?: (options: Values) => Pictures;
}

export class Remote {
  private shown: Shown | undefined;
  private styles: readonly Style[] = [];
  private options: Values = {};
  private asked = 0;
  private timer = 0;
  // Figures that are asked for and not shown yet: what is finer would be of those before.
  private awaited = 0;

  // `part` names the figures in the answers of the address.
  constructor(
    private readonly section: HTMLElement,
    private readonly address: string,
    private readonly part: string,
    private readonly additions: Additions = {},
  ) {}

  // The moment of time 0, and the window, of what is shown.
  get origin(): number | null {
    return this.shown?.choice.origin ?? null;
  }

  get window(): Ends | null {
    return this.shown?.window ?? null;
  }

  get isWhole(): boolean {
    return this.shown?.isWhole ?? true;
  }

  setWindow(window: Ends | null): void {
    if (!this.shown) return;
    this.shown.setWindow(window);
    if (this.shown.window) this.refine(...this.shown.window);
  }

  // Shows figures with these options; `isSame`: they are the figures shown, with other data, and look as these do.
  async show(options: Values, isSame = false): Promise<void> {
    this.options = options;
    this.asked += 1;
    const mine = this.asked;
    this.awaited += 1;
    const { data, bytes } = await this.figures({}).finally(() => {
      this.awaited -= 1;
    });
    const [packed] = data.parts[this.part] ?? [];
    if (!packed || mine !== this.asked) return;
    const choice = decode(packed, bytes);
    if (isSame && this.shown) hideAsIn(this.shown.choice, choice);
    // Without its figures the page would be shorter for a moment, and might scroll.
    this.section.style.minHeight = isSame ? `${this.section.offsetHeight}px` : "";
    this.shown?.close();
    this.styles = data.styles;
    const { pictures, onWindow } = this.additions;
    this.shown = showChoice(this.section, choice, this.styles, (low, high) => {
      this.refine(low, high);
      onWindow?.(this);
    }, pictures?.(options));
    this.section.style.minHeight = "";
  }

  toLoss(step: 1 | -1): boolean {
    return this.shown?.toLoss(step) ?? false;
  }

  zoom(how: string): void {
    this.shown?.zoom(how);
  }

  redraw(): void {
    this.shown?.redraw();
  }

  private refine(low: number, high: number): void {
    clearTimeout(this.timer);
    const layers = this.shown?.choice.figures.flatMap((figure) => figure.panels.flatMap((panel) => panel.layers)) ?? [];
    if (!layers.some((layer) => layer.shown < layer.rows)) return;
    this.timer = window.setTimeout(() => void this.finer(low, high), REFINE_MS);
  }

  private async finer(low: number, high: number): Promise<void> {
    if (this.awaited > 0) return;
    this.asked += 1;
    const mine = this.asked;
    const { data, bytes } = await this.figures({ low, high });
    const [packed] = data.parts[this.part] ?? [];
    if (!packed || !this.shown || mine !== this.asked) return;
    takeOver(this.shown.choice, decode(packed, bytes));
    this.shown.redraw();
  }

  private async figures(window: { low?: number; high?: number }): Promise<{ data: Data; bytes: ArrayBuffer }> {
    const columns = Math.max(10, Math.round(2 * this.section.clientWidth * devicePixelRatio));
    return unpacked(await askBytes(`${this.address}${query({ ...this.options, columns, ...window })}`));
  }
}

// Puts the columns of finer figures in place of those shown; what the reader switched off stays so.
function takeOver(shown: Choice, finer: Choice): void {
  shown.figures.forEach((figure, number) => figure.panels.forEach((panel, at) => {
    if (panel.zoom !== "time") return;
    panel.layers.forEach((layer, row) => {
      const found = finer.figures[number]?.panels[at]?.layers[row];
      // How many rows there are in all is known of the whole only.
      if (found) Object.assign(layer, found, { visible: layer.visible, rows: layer.rows });
    });
  }));
}

// What the reader switched off in figures stays so in those that take their place.
function hideAsIn(shown: Choice, next: Choice): void {
  const layers = (choice: Choice): Layer[] => choice.figures.flatMap((figure) => figure.panels.flatMap((panel) => panel.layers));
  const hidden = new Set(layers(shown).filter((layer) => !layer.visible).map((layer) => layer.name));
  for (const layer of layers(next)) layer.visible = !hidden.has(layer.name);
}
