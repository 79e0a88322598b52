// A field of a form with its label.

import { element } from "../figures/element";

export function field(label: string, input: HTMLElement): HTMLElement {
  return element("p", { class: "field" }, element("label", { for: input.id }, label), input);
}
