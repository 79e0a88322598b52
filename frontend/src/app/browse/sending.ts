// Files that are sent to the server, some at a time, each with its progress, and with the reason where it is refused.

import { element } from "../../figures/element";
import { messageOf, query, uploadAll } from "../server";
import { plural, size } from "../words";
import { packed } from "./packing";

const AT_ONCE = 3;
const MOST_EXPLAINED = 50;

export class Sending {
  readonly element = element("section", { class: "sending", "aria-label": "Files that are sent", hidden: "" });
  readonly drop: HTMLLabelElement;
  readonly file: HTMLInputElement;
  private readonly list = element("ul", { class: "plain-list" });
  private readonly outcome = element("p", { role: "status" });

  constructor(private readonly onProblem: (words: string) => void) {
    this.file = element("input", { type: "file", multiple: "", class: "visually-hidden", id: "file" });
    this.drop = element("label", { for: "file", class: "drop" }, "Drop captures, recordings or archives of them here, or choose files");
    const close = element("button", { type: "button" }, "Close");
    close.addEventListener("click", () => {
      this.element.hidden = true;
    });
    this.element.append(this.list, this.outcome, close);
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
      void this.sendDropped(event.dataTransfer);
    });
  }

  // A recording is a folder: folders are sent as archives. What was dropped is gone after the first wait.
  private async sendDropped(dropped: DataTransfer | null): Promise<void> {
    const items = [...(dropped?.items ?? [])].filter((item) => item.kind === "file");
    const found = items.map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
    const files: File[] = [];
    for (const { entry, file } of found) {
      try {
        if (entry?.isDirectory) files.push(await packed(entry as FileSystemDirectoryEntry));
        else if (file) files.push(file);
      } catch (reason) {
        this.onProblem(`${entry?.name ?? ""}: ${messageOf(reason)}`);
      }
    }
    await this.send(files);
  }

  private async send(files: readonly File[]): Promise<void> {
    if (files.length === 0) return;
    this.list.replaceChildren();
    this.outcome.textContent = "";
    this.element.hidden = false;
    const waiting = files.map((file) => ({ file, line: this.lineOf(file) }));
    const ids: string[] = [];
    let refused = 0;
    const work = async (): Promise<void> => {
      for (let one = waiting.shift(); one; one = waiting.shift()) {
        const found = await this.sendOne(one.file, one.line);
        ids.push(...found);
        if (found.length === 0) refused += 1;
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    this.end(ids, files.length, refused);
  }

  private lineOf(file: File): HTMLElement {
    const line = element("li", {}, element("span", {}, file.name), element("span", { class: "small" }, size(file.size)));
    this.list.append(line);
    return line;
  }

  private async sendOne(file: File, line: HTMLElement): Promise<string[]> {
    const bar = element("progress", { max: 1, value: 0, "aria-label": `Sent of ${file.name}` });
    line.append(bar);
    try {
      const ids = await uploadAll(file, (share) => {
        bar.value = share;
      });
      bar.replaceWith(element("a", { href: `/open${query({ source: ids.slice(0, MOST_EXPLAINED) })}` }, "Explain"));
      return ids;
    } catch (reason) {
      const words = messageOf(reason);
      bar.replaceWith(element("span", { class: "bad" }, words.replace(`${file.name}: `, "")));
      this.onProblem(words.includes(file.name) ? words : `${file.name}: ${words}`);
      return [];
    }
  }

  private end(ids: readonly string[], sent: number, refused: number): void {
    // Who sends one file wants to see it.
    if (sent === 1 && ids.length === 1) location.href = `/open${query({ source: ids })}`;
    const found = ids.length > sent - refused ? ` with ${plural(ids.length, "entry", "entries")}` : "";
    this.outcome.textContent = `${plural(sent - refused, "file")} kept${found}${refused > 0 ? `, ${refused} refused` : ""}. `;
    if (ids.length > 1 && ids.length <= MOST_EXPLAINED) this.outcome.append(element("a", { href: `/open${query({ source: ids })}` }, "Explain all"));
  }
}
