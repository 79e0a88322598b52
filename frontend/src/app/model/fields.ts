// The elements of a path as fields of a form: of each number a slider and a field with its unit.

import { element } from "../../figures/element";
import {
  fieldOf, isPlain, isRate, isShare, isWithin, partsOf, positionOf, quantityOf, scaleAround, STEPS, textOf, valueAt, written,
  type Field, type Kind, type Part, type Scale,
} from "./paths";
import { missingFrom, partOf, withField, withoutField } from "./starts";

export class Fields {
  readonly element = element("div", { class: "elements" });
  private parts: Part[] = [];
  // The ranges of the sliders by the identifiers of their fields; they stay while a slider moves.
  private readonly scales = new Map<string, Scale>();

  // `id` begins the identifiers of all fields; `changed` is called with the text of the path.
  constructor(
    private readonly id: string, private readonly kinds: readonly Kind[], private readonly changed: (text: string) => void,
  ) {}

  // Shows another path; `isFresh`: its values are where all sliders begin.
  show(text: string, isFresh = false): void {
    this.parts = partsOf(text);
    if (isFresh) this.scales.clear();
    const focused = document.activeElement?.id ?? "";
    this.element.replaceChildren(...this.parts.map((part, at) => this.partOf(part, at)), this.adding());
    // What has the focus is made again, too.
    if (focused.startsWith(this.id)) document.getElementById(focused)?.focus();
  }

  private become(parts: Part[]): void {
    const text = written(parts);
    this.show(text);
    this.changed(text);
  }

  private replaced(at: number, ...by: Part[]): Part[] {
    return this.parts.flatMap((part, place) => (place === at ? by : [part]));
  }

  private partOf(part: Part, at: number): HTMLElement {
    const kind = this.kinds.find(({ name }) => name === part.name);
    const id = `${this.id}-${at}`;
    const rows = kind ? part.settings.map((_, place) => this.row(kind, part, at, place)) : [];
    const choose = this.kindList(`${id}-kind`, part.name);
    choose.addEventListener("change", () => this.become(this.replaced(at, partOf(this.known(choose.value), part))));
    const head = [element("label", { for: choose.id }, this.parts.length > 1 ? `Element ${at + 1}` : "Element"), choose];
    const remove = element("button", { type: "button", id: `${id}-remove` }, "Remove");
    remove.setAttribute("aria-label", `Remove element ${at + 1}, ${part.name}`);
    remove.addEventListener("click", () => this.become(this.replaced(at)));
    const more = kind ? this.more(kind, part, at) : [];
    return element(
      "div", { class: "element", role: "group", "aria-label": `Element ${at + 1}: ${part.name}` },
      element("p", { class: "head" }, ...head, ...more, ...(this.parts.length > 1 ? [remove] : [])), ...rows,
    );
  }

  private known(name: string): Kind {
    return this.kinds.find((kind) => kind.name === name) ?? { name, fields: [] };
  }

  private kindList(id: string, name: string): HTMLSelectElement {
    const names = this.kinds.map((kind) => kind.name);
    const all = names.includes(name) ? names : [name, ...names];
    const list = element("select", { id }, ...all.map((one) => element("option", { value: one }, one || "choose one")));
    list.value = name;
    return list;
  }

  // A list of the optional fields that an element does not have.
  private more(kind: Kind, part: Part, at: number): HTMLElement[] {
    const missing = missingFrom(kind, part);
    if (missing.length === 0) return [];
    const list = element(
      "select", { id: `${this.id}-${at}-more`, "aria-label": `Add a field to ${part.name}` }, element("option", { value: "" }, "Add a field"),
      ...missing.map((field, place) => element("option", { value: place }, wordsOf(field))),
    );
    list.addEventListener("change", () => {
      const field = missing[Number(list.value)];
      if (list.value !== "" && field) this.become(this.replaced(at, withField(kind, part, field)));
    });
    return [list];
  }

  private adding(): HTMLElement {
    const list = element("select", { id: `${this.id}-add`, "aria-label": "Add an element" }, element("option", { value: "" }, "Add an element"));
    list.append(...this.kinds.map(({ name }) => element("option", { value: name }, name)));
    list.addEventListener("change", () => {
      if (list.value !== "") this.become([...this.parts, partOf(this.known(list.value))]);
    });
    return element("p", { class: "head" }, list);
  }

  // A setting: its field, and what removes it where it is optional.
  private row(kind: Kind, part: Part, at: number, place: number): HTMLElement {
    const [key, value] = part.settings[place] ?? ["", ""];
    const field = fieldOf(kind, key, value);
    const id = `${this.id}-${at}-${key}${field && kind.fields.filter(({ name }) => name === key).indexOf(field) > 0 ? "-2" : ""}`;
    const set = (changed: string): void => {
      part.settings[place] = [key, changed];
      this.changed(written(this.parts));
    };
    const label = element("label", { for: id }, key);
    const inputs = field ? inputsOf(field, id, `${key} of ${part.name}`, value, this.scaleOf(field, id, value), set) : [element("span", { id }, value)];
    const row = element("p", { class: "setting" }, label, ...inputs);
    if (!field?.required) {
      const remove = element("button", { type: "button", id: `${id}-remove`, "aria-label": `Remove ${key} of ${part.name}` }, "×");
      remove.addEventListener("click", () => this.become(this.replaced(at, withoutField(part, place))));
      row.append(remove);
    }
    return row;
  }

  private scaleOf(field: Field, id: string, value: string): Scale | null {
    const found = quantityOf(field, value);
    if (!found || isPlain(field)) return null;
    const number = found.digits * found.unit[1];
    const before = this.scales.get(id);
    if (before && isWithin(before, number)) return before;
    const scale = scaleAround(field, number);
    this.scales.set(id, scale);
    return scale;
  }
}

function wordsOf(field: Field): string {
  const [first] = field.units[0] ?? [];
  return field.name === "limit" ? `limit in ${first === "packets" ? first : "bytes"}` : field.name;
}

// The unit of a field in words.
function unitOf(field: Field, unit: string): string {
  return isRate(field) ? `${unit}bit/s` : isShare(field) && unit === "" ? "of 1" : unit;
}

function inputsOf(field: Field, id: string, name: string, value: string, scale: Scale | null, set: (value: string) => void): HTMLElement[] {
  if (field.choices.length > 0) {
    const list = element("select", { id }, ...field.choices.map((choice) => element("option", { value: choice }, choice)));
    list.value = value;
    list.addEventListener("change", () => set(list.value));
    return [list];
  }
  if (field.units.length === 0) {
    const box = element("input", { type: "checkbox", id });
    box.checked = value !== "false";
    box.addEventListener("change", () => set(box.checked ? "" : "false"));
    return [box];
  }
  return numberInputs(field, id, name, value, scale, set);
}

// A number in the unit in which it is written; the slider chooses a unit that suits it.
function numberInputs(field: Field, id: string, name: string, value: string, scale: Scale | null, set: (value: string) => void): HTMLElement[] {
  let unit = quantityOf(field, value)?.unit[0] ?? "";
  const number = element("input", { type: "number", id, min: 0, step: "any", "aria-describedby": `${id}-unit` });
  const words = element("span", { class: "unit", id: `${id}-unit` });
  const show = (written: string): void => {
    const found = quantityOf(field, written);
    unit = found?.unit[0] ?? unit;
    number.value = found ? String(Number(found.digits.toPrecision(6))) : "";
    words.textContent = unitOf(field, unit);
  };
  show(value);
  const slider = scale && sliderOf(field, id, name, scale, (moved) => {
    show(moved);
    set(moved);
  });
  const follow = (written: string): void => {
    const found = quantityOf(field, written);
    if (!slider || !scale || !found) return;
    const value = found.digits * found.unit[1];
    // A number beyond the ends of the slider gives it another range.
    if (!isWithin(scale, value)) Object.assign(scale, scaleAround(field, value));
    slide(slider, scale, field, value);
  };
  follow(value);
  number.addEventListener("input", () => {
    if (number.value === "") return;
    const written = `${number.value}${unit}`;
    follow(written);
    set(written);
  });
  return [...(slider ? [slider] : []), number, words];
}

function sliderOf(field: Field, id: string, name: string, scale: Scale, moved: (value: string) => void): HTMLInputElement {
  const slider = element("input", { type: "range", id: `${id}-slider`, min: 0, max: STEPS, step: 1, "aria-label": name });
  slider.addEventListener("input", () => {
    const value = valueAt(scale, Number(slider.value));
    slider.setAttribute("aria-valuetext", spoken(field, textOf(field, value)));
    moved(textOf(field, value));
  });
  return slider;
}

function slide(slider: HTMLInputElement, scale: Scale, field: Field, value: number): void {
  slider.value = String(positionOf(scale, value));
  slider.setAttribute("aria-valuetext", spoken(field, textOf(field, value)));
}

function spoken(field: Field, written: string): string {
  const found = quantityOf(field, written);
  return found ? `${found.digits} ${unitOf(field, found.unit[0])}` : written;
}
