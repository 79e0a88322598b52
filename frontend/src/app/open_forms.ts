// What to open: files that are dropped or chosen, a path, or a part of what is open.

import { element } from "../figures/element";
import { field } from "./fields";
import { keys } from "./keyboard";
import { linkOf, type OpenState } from "./open_state";
import { ask, messageOf, query, upload } from "./server";

export function openForm(view: HTMLElement): void {
  const file = element("input", { type: "file", multiple: "", class: "visually-hidden", id: "file" });
  const drop = element("label", { for: "file", class: "drop" }, "Drop captures or recordings here, or choose files");
  const path = element("input", { id: "path", spellcheck: "false", autocomplete: "off", placeholder: "captures/download.pcap", "aria-describedby": "path-words" });
  const form = element(
    "form", { class: "open-path" }, field("Path on this host", path),
    element("p", { class: "small", id: "path-words" }, "A capture, a recording or a file of another tool, below the folders of this server. Two paths with a comma between them: two captures of one path."),
    element("button", { type: "submit" }, "Explain"),
  );
  const status = element("p", { class: "small", role: "status" });
  const problem = element("p", { class: "note", role: "alert", hidden: "" });
  view.replaceChildren(
    element("h1", {}, "Open"), problem, file, drop, status, form,
    element("p", {}, "Or choose captures and recordings in ", element("a", { href: "/browse" }, "Browse"), "."),
  );
  const begin = async (found: () => Promise<string[]>): Promise<void> => {
    problem.hidden = true;
    try {
      const ids = await found();
      if (ids.length > 0) location.href = `/open${query({ source: ids })}`;
    } catch (reason) {
      status.textContent = "";
      problem.textContent = messageOf(reason);
      problem.hidden = false;
    }
  };
  const send = (files: readonly File[]): void => void begin(async () => {
    const ids: string[] = [];
    for (const one of files) {
      ids.push(await upload(one, (share) => {
        status.textContent = `Sending ${one.name}: ${Math.round(share * 100)} %`;
      }));
    }
    return ids;
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const paths = path.value.split(",").map((one) => one.trim()).filter((one) => one);
    if (paths.length === 0) {
      path.focus();
      return;
    }
    void begin(async () => (await ask<{ ids: string[] }>("POST", "/api/paths", { path: paths })).ids);
  });
  file.addEventListener("change", () => send([...(file.files ?? [])]));
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    drop.classList.add("over");
  });
  document.addEventListener("dragleave", () => drop.classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    drop.classList.remove("over");
    send([...(event.dataTransfer?.files ?? [])]);
  });
  keys([
    { key: "/", words: "Type a path", act: () => path.focus() },
    { key: "o", words: "Choose files", act: () => file.click() },
  ]);
}

// A filter and times: only these packets are explained.
export function selectionForm(state: OpenState): HTMLElement {
  const filter = element("input", { id: "filter", spellcheck: "false", autocomplete: "off", placeholder: "tcp.port == 443 and ip.addr == 10.0.0.0/8" });
  const begin = element("input", { id: "begin", inputmode: "decimal", placeholder: "seconds since the first packet" });
  const end = element("input", { id: "end", inputmode: "decimal", placeholder: "seconds since the first packet" });
  [filter.value, begin.value, end.value] = [state.filter, state.begin, state.end];
  const form = element("form", {}, field("Filter", filter), field("From", begin), field("To", end), element("button", { type: "submit" }, "Explain"));
  const again = (selection: Pick<OpenState, "filter" | "begin" | "end">): void => {
    location.href = `/open${linkOf({ ...state, ...selection, flows: [], shown: {}, zoom: {}, packets: false, lost: false, models: {} })}`;
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    again({ filter: filter.value.trim(), begin: begin.value.trim(), end: end.value.trim() });
  });
  const isPart = state.filter || state.begin || state.end;
  if (isPart) {
    const clear = element("button", { type: "button" }, "Explain everything");
    clear.addEventListener("click", () => again({ filter: "", begin: "", end: "" }));
    form.append(" ", clear);
  }
  return element(
    "details", { class: "selection-form screen", ...(isPart ? { open: "" } : {}) }, element("summary", {}, "Explain a part: filter and times"), form,
    element("p", { class: "small" }, "A filter is one of Wireshark's display filters, such as tcp.port == 443: only connections that match are explained."),
  );
}
