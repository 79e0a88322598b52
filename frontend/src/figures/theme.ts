// Colours by the reader's choice of light or dark, and always light on paper.

import type { Style } from "./figure";

const state = { printing: false };

export function isDark(): boolean {
  return !state.printing && window.matchMedia("(prefers-color-scheme: dark)").matches;
}

export function colourOf(style: Style): string {
  return isDark() ? style.dark : style.light;
}

export function cssColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// Calls `redraw` whenever the colours change.
export function onThemeChange(redraw: () => void): void {
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  for (const [event, printing] of [["beforeprint", true], ["afterprint", false]] as const) {
    window.addEventListener(event, () => {
      state.printing = printing;
      document.documentElement.classList.toggle("print", printing);
      redraw();
    });
  }
}
