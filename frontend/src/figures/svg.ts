// A context that writes SVG: it knows what marks.ts uses of a canvas, so that one code draws both.

interface State {
  alpha: number;
  stroke: string;
  fill: string;
  width: number;
  dash: string;
  join: string;
  clip: string;
}

type Align = "left" | "start" | "center" | "right" | "end";

const ANCHORS: Record<string, string> = { center: "middle", right: "end", end: "end" };

export function escapeXml(text: string): string {
  // Control characters have no place in XML, escaped or not.
  const kept = text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "\ufffd");
  return kept.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
}

function round(value: number): string {
  return String(Math.round(value * 100) / 100);
}

export class SvgContext {
  globalAlpha = 1;
  strokeStyle = "#000000";
  fillStyle = "#000000";
  lineWidth = 1;
  lineJoin = "miter";
  font = "12px system-ui, sans-serif";
  textAlign: Align = "start";
  textBaseline = "alphabetic";
  private dash = "";
  private path: string[] = [];
  private clipped = "";
  private readonly states: State[] = [];
  private readonly elements: string[] = [];
  private clips = 0;

  // `name` keeps the identifiers of clips apart in a file of several contexts.
  constructor(private readonly name: string) {}

  get body(): string {
    return this.elements.join("\n");
  }

  save(): void {
    this.states.push({
      alpha: this.globalAlpha, stroke: this.strokeStyle, fill: this.fillStyle, width: this.lineWidth, dash: this.dash,
      join: this.lineJoin, clip: this.clipped,
    });
  }

  restore(): void {
    const state = this.states.pop();
    if (!state) return;
    this.globalAlpha = state.alpha;
    this.strokeStyle = state.stroke;
    this.fillStyle = state.fill;
    this.lineWidth = state.width;
    this.dash = state.dash;
    this.lineJoin = state.join;
    this.clipped = state.clip;
  }

  setLineDash(lengths: readonly number[]): void {
    this.dash = lengths.map(round).join(" ");
  }

  beginPath(): void {
    this.path = [];
  }

  moveTo(x: number, y: number): void {
    if (Number.isFinite(x + y)) this.path.push(`M${round(x)} ${round(y)}`);
  }

  lineTo(x: number, y: number): void {
    if (Number.isFinite(x + y)) this.path.push(`${this.path.length > 0 ? "L" : "M"}${round(x)} ${round(y)}`);
  }

  closePath(): void {
    this.path.push("Z");
  }

  // Whole circles only.
  arc(x: number, y: number, r: number): void {
    if (!Number.isFinite(x + y)) return;
    const [radius, across] = [round(r), round(2 * r)];
    this.path.push(`M${round(x - r)} ${round(y)}a${radius} ${radius} 0 1 0 ${across} 0a${radius} ${radius} 0 1 0 -${across} 0`);
  }

  rect(x: number, y: number, width: number, height: number): void {
    if (Number.isFinite(x + y)) this.path.push(`M${round(x)} ${round(y)}h${round(width)}v${round(height)}h${round(-width)}Z`);
  }

  clip(): void {
    this.clips += 1;
    const id = `${this.name}-clip-${this.clips}`;
    this.elements.push(`<clipPath id="${id}"><path d="${this.path.join("")}"/></clipPath>`);
    this.clipped = ` clip-path="url(#${id})"`;
  }

  stroke(): void {
    if (this.path.length === 0) return;
    const dash = this.dash ? ` stroke-dasharray="${this.dash}"` : "";
    this.elements.push(
      `<path d="${this.path.join("")}" fill="none" stroke="${escapeXml(this.strokeStyle)}" stroke-width="${round(this.lineWidth)}"`
      + ` stroke-linejoin="${this.lineJoin}"${dash}${this.shared()}/>`,
    );
  }

  fill(): void {
    if (this.path.length > 0) this.elements.push(`<path d="${this.path.join("")}" fill="${escapeXml(this.fillStyle)}"${this.shared()}/>`);
  }

  fillRect(x: number, y: number, width: number, height: number): void {
    this.beginPath();
    this.rect(x, y, width, height);
    this.fill();
  }

  fillText(text: string, x: number, y: number): void {
    const [size = "12"] = /[\d.]+(?=px)/.exec(this.font) ?? [];
    const weight = /^(bold|\d{3}) /.exec(this.font)?.[1];
    const down = this.textBaseline === "middle" ? Number(size) * 0.35 : this.textBaseline === "top" ? Number(size) * 0.9 : 0;
    const anchor = ANCHORS[this.textAlign];
    this.elements.push(
      `<text x="${round(x)}" y="${round(y + down)}" font-size="${size}" fill="${escapeXml(this.fillStyle)}"`
      + `${weight ? ` font-weight="${weight}"` : ""}${anchor ? ` text-anchor="${anchor}"` : ""}${this.shared()}>${escapeXml(text)}</text>`,
    );
  }

  // Text that runs upwards around a place, as the title of a vertical axis.
  upright(text: string, x: number, y: number): void {
    const size = /[\d.]+(?=px)/.exec(this.font)?.[0] ?? "12";
    const at = `${round(x)} ${round(y)}`;
    this.elements.push(
      `<text transform="translate(${at}) rotate(-90)" font-size="${size}" fill="${escapeXml(this.fillStyle)}" text-anchor="middle">${escapeXml(text)}</text>`,
    );
  }

  private shared(): string {
    return `${this.globalAlpha < 1 ? ` opacity="${round(this.globalAlpha)}"` : ""}${this.clipped}`;
  }
}
