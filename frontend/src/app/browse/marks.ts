// Tags and notes: of one entry as they are, of several as a change.

import { element } from "../../figures/element";
import { field } from "../fields";
import { ask, Failure, messageOf, type Entry } from "../server";
import { plural } from "../words";

export function tagsIn(text: string): string[] {
  return text.split(",").map((tag) => tag.trim()).filter((tag) => tag);
}

export class Marks {
  readonly element: HTMLFormElement;
  private readonly tags: HTMLInputElement;
  private readonly note: HTMLTextAreaElement;
  private readonly answer = element("div", { role: "status" });

  constructor(private entry: Entry, private readonly onMarked: (entry: Entry) => void) {
    this.tags = element("input", { id: "tags", value: entry.tags.join(", "), autocomplete: "off" });
    this.note = element("textarea", { id: "note", maxlength: 10_000, rows: 2 }, entry.note);
    const save = element("button", { type: "submit" }, "Save");
    this.element = element("form", {}, field("Tags, with commas between", this.tags), field("Note", this.note), save, this.answer);
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      void this.save(this.entry.revision);
    });
  }

  private async save(revision: number): Promise<void> {
    const marks = { tags: tagsIn(this.tags.value), note: this.note.value, revision };
    try {
      this.entry = await ask<Entry>("PUT", `/api/library/${this.entry.id}/marks`, marks);
      this.answer.replaceChildren("Saved.");
      this.onMarked(this.entry);
    } catch (reason) {
      const words = element("p", { class: "note", role: "alert" }, messageOf(reason));
      this.answer.replaceChildren(words);
      if (reason instanceof Failure && reason.status === 409) await this.offerBoth();
    }
  }

  // Another page was faster: its user's words are not to be lost, nor are these.
  private async offerBoth(): Promise<void> {
    const theirs = await ask<Entry>("GET", `/api/library/${this.entry.id}`);
    const mine = element("button", { type: "button" }, "Replace theirs by mine");
    mine.addEventListener("click", () => void this.save(theirs.revision));
    const both = element("button", { type: "button" }, "Put both together");
    both.addEventListener("click", () => {
      this.tags.value = [...new Set([...theirs.tags, ...tagsIn(this.tags.value)])].join(", ");
      this.note.value = [theirs.note, this.note.value].filter((text, at, all) => text && all.indexOf(text) === at).join("\n");
      void this.save(theirs.revision);
    });
    const take = element("button", { type: "button" }, "Take theirs");
    take.addEventListener("click", () => {
      this.entry = theirs;
      this.tags.value = theirs.tags.join(", ");
      this.note.value = theirs.note;
      this.answer.replaceChildren();
      this.onMarked(theirs);
    });
    this.answer.append(element("p", { class: "buttons" }, both, mine, take));
  }
}

export class MarksOfMany {
  readonly element: HTMLFormElement;

  constructor(ids: readonly string[], onMarked: () => void) {
    const add = element("input", { id: "add-tags", autocomplete: "off" });
    const remove = element("input", { id: "remove-tags", autocomplete: "off" });
    const note = element("input", { id: "add-note", maxlength: 10_000, autocomplete: "off" });
    const answer = element("p", { role: "status" });
    const fields = [field("Add tags, with commas between", add), field("Remove tags", remove), field("Add a line to their notes", note)];
    this.element = element("form", {}, ...fields, element("button", { type: "submit" }, "Apply to all chosen"), answer);
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      const change = { source: ids, add: tagsIn(add.value), remove: tagsIn(remove.value), note: note.value };
      void ask<{ changed: number }>("POST", "/api/library/marks", change).then(({ changed }) => {
        answer.textContent = `${plural(changed, "entry", "entries")} changed.`;
        note.value = "";
        onMarked();
      }, (reason: unknown) => {
        answer.textContent = messageOf(reason);
      });
    });
  }
}
