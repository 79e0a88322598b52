// Plots of recordings: one, or several overlaid, side by side or combined; and what differs between them in words.

import { element } from "../figures/element";
import { controls } from "../figures/figures";
import { onThemeChange } from "../figures/theme";
import { Remote } from "./remote";
import { problemOf, ready } from "./document";
import { ask, query, type Job, type Values } from "./server";

interface Plot {
  name: string;
  title: string;
  kind: string;
}

interface Compared {
  title: string;
  html: string;
  plots: Plot[];
}

const COMBINERS: readonly [string, string][] = [
  ["", "As the plot says"], ["groups", "Groups"], ["groups-points", "Groups, point by point"], ["groups-concat", "Groups, joined"],
  ["series", "Series"], ["both", "Groups and series"], ["batch", "Batch"], ["batch-concat", "Batch, joined"], ["batch-series", "Batch by series"],
];
const PICTURES = ["png", "svg", "pdf", "csv", "json"] as const;

export function compare(view: HTMLElement): void {
  const given = new URLSearchParams(location.search);
  const sources = given.getAll("source");
  if (sources.length === 0) {
    view.replaceChildren(element("h1", {}, "Compare"), element("p", {}, "Choose recordings in ", element("a", { href: "/browse" }, "Browse"), "."));
    return;
  }
  const words = element("p", { role: "status" }, "Reading…");
  view.replaceChildren(element("h1", {}, "Comparing"), words);
  const fail = (reason: unknown): void => {
    view.replaceChildren(element("h1", {}, "Nothing to compare"), problemOf(reason));
  };
  const begin = async (): Promise<void> => {
    const started = await ask<Job>("POST", "/api/comparisons", { source: sources });
    await ready(`/api/comparisons/${started.id}`, started, () => undefined);
    const page = await ask<Compared>("GET", `/api/comparisons/${started.id}/page`);
    show(view, started.id, page, given);
  };
  void begin().catch(fail);
}

function show(view: HTMLElement, id: string, page: Compared, given: URLSearchParams): void {
  document.title = `${page.title} – whydrop`;
  const template = document.createElement("template");
  // The server made it of escaped text (show/html.py), and the policy of the page runs no script in it.
  template.innerHTML = page.html;
  const plot = element("select", { id: "plot" }, ...page.plots.map((one) => element("option", { value: one.name }, `${one.title} (${one.name})`)));
  const combine = element("select", { id: "combine" }, ...COMBINERS.map(([value, title]) => element("option", { value }, title)));
  const group = element("input", { id: "group", placeholder: "title, batch.variables.qdisc", spellcheck: "false" });
  const smooth = element("input", { id: "smooth", type: "number", min: 0, max: 10_000, placeholder: "0" });
  const paired = element("input", { id: "paired", type: "checkbox" });
  const log = element("input", { id: "log", type: "checkbox" });
  plot.value = given.get("plot") ?? page.plots[0]?.name ?? "";
  combine.value = given.get("combine") ?? "";
  group.value = given.getAll("group_by").join(", ");
  smooth.value = given.get("smooth") ?? "";
  paired.checked = given.get("paired") === "true";
  log.checked = given.get("log") === "true";

  const field = (label: string, input: HTMLElement): HTMLElement => element("span", { class: "option" }, element("label", { for: input.id }, label), input);
  const zooms = [["in", "Zoom in"], ["out", "Zoom out"], ["left", "←"], ["right", "→"], ["all", "Show all"]] as const;
  const names: Record<string, string> = { left: "Move to earlier times, or lower numbers", right: "Move to later times, or higher numbers" };
  const buttons = element("span", { class: "buttons", role: "group", "aria-label": "Zoom" }, ...zooms.map(([how, label]) => element("button", { type: "button", "data-zoom": how, "aria-label": names[how] ?? label }, label)));
  const files = element("span", { class: "buttons" });
  const problem = element("p", { class: "note", role: "alert", hidden: "" });
  const section = element(
    "section", { id: "plot-section" },
    element("div", { class: "controls" }, field("Plot", plot), field("Combine", combine), field("Group by", group), field("Smooth over steps", smooth), field("Side by side", paired), field("Logarithmic", log), buttons, files),
    problem, element("div", { class: "figures" }),
  );
  view.replaceChildren(section, template.content);

  const remote = new Remote(section, `/api/comparisons/${id}/figures`, "plot");
  controls(section, [], () => undefined, (how) => remote.zoom(how));
  onThemeChange(() => remote.redraw());
  const options = (): Values => ({
    plot: plot.value,
    combine: combine.value,
    group_by: group.value.split(/[\s,]+/).filter((key) => key),
    smooth: smooth.value,
    paired: paired.checked || "",
    log: log.checked || "",
  });
  const draw = async (): Promise<void> => {
    history.replaceState(null, "", location.pathname + query({ source: given.getAll("source"), ...options() }));
    files.replaceChildren(...PICTURES.map((kind) => element("a", { class: "button", href: `/api/comparisons/${id}/picture${query({ ...options(), kind })}`, download: "" }, kind.toUpperCase())));
    try {
      await remote.show(options());
      problem.hidden = true;
    } catch (reason) {
      problem.textContent = reason instanceof Error ? reason.message : String(reason);
      problem.hidden = false;
    }
  };
  for (const input of [plot, combine, group, smooth, paired, log]) input.addEventListener("change", () => void draw());
  if (page.plots.length > 0) void draw();
}
