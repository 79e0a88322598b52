// A menu that opens below its name: Escape closes it, and so does a click beside it.

import { element } from "../../figures/element";

export function menuOf(name: string, ...content: Node[]): HTMLDetailsElement {
  const summary = element("summary", {}, name);
  const menu = element("details", { class: "menu" }, summary, element("div", {}, ...content));
  const close = (): void => {
    menu.open = false;
  };
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    event.preventDefault();
    event.stopPropagation();
    close();
    summary.focus();
  });
  document.addEventListener("pointerdown", (event) => {
    if (!menu.contains(event.target as Node)) close();
  });
  return menu;
}
