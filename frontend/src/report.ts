// The script of a page that is one file: it draws the figures that the page holds, and copies commands.

import { copyOnClick } from "./copying";
import { decode, type Data } from "./figures/figure";
import { showSection } from "./figures/figures";
import { onThemeChange } from "./figures/theme";
import "uplot/dist/uPlot.min.css";
import "./page.css";

// For whoever reads the numbers of a report by a program: `whydrop.decode` in the page.
export { decode };

function start(): void {
  copyOnClick(document);
  const source = document.getElementById("chart-data");
  if (!source) return;
  const { parts, styles } = JSON.parse(source.textContent ?? "") as Data;
  const shown = Object.entries(parts).map(([id, choices]) => {
    const section = document.getElementById(id);
    return section ? showSection(section, choices, styles) : { redraw: () => undefined };
  });
  onThemeChange(() => shown.forEach((part) => part.redraw()));
}

start();
