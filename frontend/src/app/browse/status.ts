// How far the index is, and what is to be known about the folders.

import { element } from "../../figures/element";
import { count, plural } from "../words";

export interface LibraryStatus {
  count: number;
  others: number;
  has_looked: boolean;
  done: number | null;
  of: number | null;
  problems: string[];
}

export class Status {
  readonly element = element("div", { class: "indexing" });
  private readonly words = element("span", { class: "small" });
  private readonly bar = element("progress", { "aria-label": "Files that are indexed", hidden: "" });
  private readonly problems = element("div", {});

  constructor() {
    this.element.append(this.words, this.bar, this.problems);
  }

  show(status: LibraryStatus): void {
    const { done, of } = status;
    this.bar.hidden = done === null || of === null;
    if (done !== null && of !== null) {
      this.bar.max = of;
      this.bar.value = done;
      this.words.textContent = `${count(done)} of ${count(of)} new files are indexed; those that are can be used.`;
    } else {
      const others = status.others > 0 ? ` ${plural(status.others, "other file")} of no known kind: not listed.` : "";
      this.words.textContent = status.has_looked ? others.trim() : "The folders are looked at …";
    }
    // Kept as they are where they did not change: a screen reader reads them once.
    const texts = [...this.problems.children].map((one) => one.textContent);
    if (texts.join("\n") === status.problems.join("\n")) return;
    this.problems.replaceChildren(...status.problems.map((words) => element("p", { class: "note" }, words)));
  }
}
