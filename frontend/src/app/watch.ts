// Watches this host's connections and the ports of switches.

import { element } from "../figures/element";
import { keys } from "./keyboard";
import { Connections } from "./watch/connections";
import "./watch/watch.css";

export function watch(view: HTMLElement): void {
  const connections = new Connections();
  const rolling = element("section", { id: "rolling" });
  view.replaceChildren(element("h1", {}, "Watch"), connections.element, rolling);
  connections.start();
  keys(connections.keys());
}
