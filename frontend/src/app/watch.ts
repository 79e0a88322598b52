// Watches this host's connections and the ports of switches.

import { element } from "../figures/element";
import { keys } from "./keyboard";
import { rolling } from "./rolling";
import { Connections } from "./watch/connections";
import { PortTable } from "./watch/ports";
import "./watch/watch.css";

export function watch(view: HTMLElement): void {
  const [connections, ports] = [new Connections(), new PortTable()];
  const packets = element("section", { id: "rolling" });
  view.replaceChildren(element("h1", {}, "Watch"), connections.element, packets, ports.element);
  connections.start();
  void ports.start();
  keys([...connections.keys(), ...ports.keys(), ...rolling(packets).keys]);
}
