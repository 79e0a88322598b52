// Files that are sent to the server, some at a time, each with its progress, and with the reason where it is refused.

import { element } from "../../figures/element";
import { query, upload } from "../server";
import { plural, size } from "../words";

const AT_ONCE = 3;

export class Sending {
  readonly element = element("section", { class: "sending", "aria-label": "Files that are sent", hidden: "" });
  readonly drop: HTMLLabelElement;
  readonly file: HTMLInputElement;
  private readonly list = element("ul", { class: "plain-list" });
  private readonly outcome = element("p", { role: "status" });

  constructor(private readonly onProblem: (words: string) => void) {
    this.file = element("input", { type: "file", multiple: "", class: "visually-hidden", id: "file" });
    this.drop = element("label", { for: "file", class: "drop" }, "Drop captures or recordings here, or choose files");
    this.element.append(this.list, this.outcome);
    this.file.addEventListener("change", () => {
      void this.send([...(this.file.files ?? [])]);
      this.file.value = "";
    });
    document.addEventListener("dragover", (event) => {
      event.preventDefault();
      this.drop.classList.add("over");
    });
    document.addEventListener("dragleave", () => this.drop.classList.remove("over"));
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      this.drop.classList.remove("over");
      void this.send(this.filesOf(event.dataTransfer));
    });
  }

  private filesOf(dropped: DataTransfer | null): File[] {
    const files: File[] = [];
    for (const item of dropped?.items ?? []) {
      const entry = item.webkitGetAsEntry();
      const file = item.kind === "file" ? item.getAsFile() : null;
      if (entry?.isDirectory) this.onProblem(`${entry.name}: a folder cannot be sent. Copy it into a folder of this page: it is listed there at once`);
      else if (file) files.push(file);
    }
    return files;
  }

  private async send(files: readonly File[]): Promise<void> {
    if (files.length === 0) return;
    this.list.replaceChildren();
    this.outcome.textContent = "";
    this.element.hidden = false;
    const waiting = files.map((file) => ({ file, line: this.lineOf(file) }));
    const ids: string[] = [];
    const work = async (): Promise<void> => {
      for (let one = waiting.shift(); one; one = waiting.shift()) {
        const id = await this.sendOne(one.file, one.line);
        if (id !== null) ids.push(id);
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    this.end(ids, files.length);
  }

  private lineOf(file: File): HTMLElement {
    const line = element("li", {}, element("span", {}, file.name), element("span", { class: "small" }, size(file.size)));
    this.list.append(line);
    return line;
  }

  private async sendOne(file: File, line: HTMLElement): Promise<string | null> {
    const bar = element("progress", { max: 1, value: 0, "aria-label": `Sent of ${file.name}` });
    line.append(bar);
    try {
      const id = await upload(file, (share) => {
        bar.value = share;
      });
      bar.replaceWith(element("a", { href: `/open${query({ source: [id] })}` }, "Explain"));
      return id;
    } catch (reason) {
      const words = reason instanceof Error ? reason.message : String(reason);
      bar.replaceWith(element("span", { class: "bad" }, words));
      this.onProblem(words.includes(file.name) ? words : `${file.name}: ${words}`);
      return null;
    }
  }

  private end(ids: readonly string[], sent: number): void {
    // Who sends one file wants to see it.
    if (sent === 1 && ids.length === 1) location.href = `/open${query({ source: ids })}`;
    const refused = sent - ids.length;
    this.outcome.textContent = `${plural(ids.length, "file")} kept${refused > 0 ? `, ${refused} refused` : ""}. `;
    if (ids.length > 1) this.outcome.append(element("a", { href: `/open${query({ source: ids })}` }, "Explain all"));
  }
}
