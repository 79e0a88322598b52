// Live plots of the run of a batch that goes on now.

import { element } from "../../figures/element";
import { onThemeChange } from "../../figures/theme";
import { ask } from "../server";
import { plural } from "../words";
import type { BatchJob } from "./batch";
import { ENDED } from "./following";
import { latestTable, Plots, type Points } from "./plots";

interface Live {
  number: number;
  series: Points;
  left_out: number;
}

export class BatchLive {
  private readonly heading = element("h2", {});
  private readonly more = element("p", { class: "small", hidden: "" });
  private readonly latest = element("details", { class: "latest" }, element("summary", {}, "Latest values"));
  private plots = new Plots();
  readonly element = element("section", { "aria-label": "Live plots", hidden: "" }, this.heading, this.more, this.latest, this.plots.element);
  // Events wait until all points before them are known: none is missed, none comes twice.
  private waiting: BatchJob[] | null = null;
  private run = 0;
  private points = 0;

  constructor(private readonly address: string) {
    this.latest.addEventListener("toggle", () => this.showLatest());
    onThemeChange(() => this.plots.redraw());
  }

  // Reads the points so far; events are given to `show` from before this call on.
  async begin(): Promise<void> {
    this.waiting = [];
    try {
      const live = await ask<Live>("GET", `${this.address}/live`);
      this.clear();
      this.points = live.number;
      this.add(live.series, live.left_out);
    } finally {
      const waiting = this.waiting;
      this.waiting = null;
      waiting.forEach((job) => this.show(job));
    }
  }

  show(job: BatchJob): void {
    if (this.waiting) {
      this.waiting.push(job);
      return;
    }
    const { number = 0, key = "", points = 0, left_out: left = 0 } = job.progress;
    if (number !== this.run) {
      // Of the first run that this page sees, the points may have been read before its number was known.
      if (this.run !== 0) this.clear();
      this.run = number;
      this.heading.textContent = `Run ${number}: ${key}`;
    }
    if (job.series && points > this.points) {
      this.points = points;
      this.add(job.series, left);
    }
    // The recordings of runs have all of it.
    if (ENDED.has(job.state)) this.element.hidden = true;
  }

  toggleLatest(): void {
    this.latest.open = !this.latest.open;
  }

  private add(series: Points, left: number): void {
    this.more.hidden = left === 0;
    this.more.textContent = left ? `${plural(left, "more series has", "more series have")} no room in the charts; the recording has all of them.` : "";
    if (Object.keys(series).length === 0) return;
    this.element.hidden = false;
    this.plots.add(series);
    this.showLatest();
  }

  private showLatest(): void {
    this.latest.querySelector(".scroll")?.remove();
    if (this.latest.open) this.latest.append(latestTable(this.plots));
  }

  private clear(): void {
    const before = this.plots;
    this.plots = new Plots();
    before.element.replaceWith(this.plots.element);
    before.destroy();
    this.showLatest();
  }
}
