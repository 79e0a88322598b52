// Names that the reader can switch off, in one panel or in all that have them.

import type { Chart } from "./chart";
import { element } from "./element";
import type { Layer, Style } from "./figure";
import { drawKey } from "./marks";
import { colourOf } from "./theme";

// `keys` collects what draws the pictures of the legend again.
export function legendOf(
  names: readonly string[],
  charts: readonly Chart[],
  styles: readonly Style[],
  keys: (() => void)[],
  what: string,
): HTMLElement {
  const legend = element("div", { class: "legend", role: "group", "aria-label": `What ${what} shows` });
  const title = charts[0]?.panel.legendTitle;
  if (title) legend.append(element("span", {}, title));
  const entries = new Map<string, HTMLElement>();
  // In all the charts that share this legend.
  const light = (lit: string | null): void => {
    for (const [name, made] of entries) made.classList.toggle("lit", name === lit);
    for (const chart of charts) chart.light(lit);
  };
  for (const name of names) {
    const having = charts.filter((chart) => chart.panel.layers.some((layer) => layer.name === name));
    const made = entry(name, having, styles, keys, light);
    entries.set(name, made);
    legend.append(made);
  }
  for (const chart of charts) chart.onHover(light);
  return legend;
}

function entry(
  name: string, charts: readonly Chart[], styles: readonly Style[], keys: (() => void)[], light: (lit: string | null) => void,
): HTMLElement {
  const layers = charts.flatMap((chart) => chart.panel.layers.filter((layer) => layer.name === name));
  const canvas = element("canvas", { class: "key", "aria-hidden": "true" });
  const button = element("button", { type: "button", "aria-pressed": "true" }, canvas, `${name}${countOf(layers)}`);
  const shown = layers.findLast((layer) => !layer.helper) ?? layers.at(-1);
  const style = shown && styles[shown.style];
  if (!shown || !style) return button;
  const draw = (): void => drawKey(canvas, shown, style, colourOf(style));
  draw();
  keys.push(draw);
  button.addEventListener("mouseenter", () => light(name));
  button.addEventListener("mouseleave", () => light(null));
  // A click leaves the focus here as well: that is no wish to see these lines.
  button.addEventListener("focus", () => { if (button.matches(":focus-visible")) light(name); });
  button.addEventListener("blur", () => light(null));
  button.addEventListener("click", () => {
    const visible = !shown.visible;
    for (const layer of layers) layer.visible = visible;
    button.setAttribute("aria-pressed", String(visible));
    light(visible ? name : null);
    for (const chart of charts) chart.setWindow(...chart.window);
  });
  return button;
}

function countOf(layers: readonly Layer[]): string {
  if (!layers.every((layer) => layer.counted)) return "";
  return ` (${layers.reduce((sum, layer) => sum + layer.rows, 0).toLocaleString("en")})`;
}
