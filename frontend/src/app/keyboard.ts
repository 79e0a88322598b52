// Keys of a view, and the list of them on "?".

import { element } from "../figures/element";

export interface Key {
  key: string;
  words: string;
  act: (event: KeyboardEvent) => void;
  // Where it does not hold, the browser does with the key what it always does.
  when?: () => boolean;
}

const NAMES: Record<string, string> = { ArrowDown: "↓", ArrowUp: "↑", ArrowLeft: "←", ArrowRight: "→", " ": "Space" };

// Keys act while no field of a form has the focus; Escape leaves one.
export function keys(listed: readonly Key[]): void {
  const every: readonly Key[] = [...listed, { key: "?", words: "Show or hide this list", act: () => toggle(every) }];
  document.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    const isField = target.matches("input:not([type=checkbox]), select, textarea");
    if (isField) {
      if (event.key === "Escape") target.blur();
      return;
    }
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    // Arrows move what scrolls and has the focus itself.
    if (event.key.startsWith("Arrow") && target.matches(".scroll, pre")) return;
    const found = every.find(({ key, when }) => key === event.key && (when?.() ?? true));
    if (!found) return;
    event.preventDefault();
    found.act(event);
  });
}

function toggle(every: readonly Key[]): void {
  const open = document.querySelector<HTMLDialogElement>("dialog.keys");
  if (open) {
    open.close();
    return;
  }
  const rows = every.map(({ key, words }) => element("div", {}, element("dt", {}, element("kbd", {}, NAMES[key] ?? key)), element("dd", {}, words)));
  const dialog = element("dialog", { class: "keys", "aria-label": "Keys" }, element("h2", {}, "Keys"), element("dl", { class: "lines" }, ...rows));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
