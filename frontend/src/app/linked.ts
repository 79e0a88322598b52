// Sections of figures that show the same time: a zoom in one moves the others, and the address says it.

import type { Ends } from "../figures/figure";
import type { Clock, OpenState } from "./open_state";
import type { Remote } from "./remote";

export class Linked {
  private readonly remotes = new Set<Remote>();

  // `changed` is called with every new window that the reader chooses.
  constructor(private readonly state: OpenState, private readonly changed: () => void) {}

  // A section whose figures are now shown, or others in their place.
  join(remote: Remote): void {
    this.remotes.add(remote);
    const window = this.state.zoom[clockOf(remote)];
    if (window) apply(remote, window);
  }

  moved(from: Remote): void {
    const clock = clockOf(from);
    const [window, origin] = [from.window, from.origin ?? 0];
    if (!window) return;
    if (from.isWhole) delete this.state.zoom[clock];
    else this.state.zoom[clock] = [window[0] + origin, window[1] + origin];
    for (const remote of this.remotes) {
      if (remote !== from && clockOf(remote) === clock) apply(remote, this.state.zoom[clock] ?? null);
    }
    this.changed();
  }

  toLoss(step: 1 | -1): boolean {
    return [...this.remotes].some((remote) => clockOf(remote) === "time" && remote.toLoss(step));
  }

  zoom(how: string): void {
    // One of each clock: the others follow it.
    const clocks = new Map([...this.remotes].reverse().map((remote) => [clockOf(remote), remote]));
    for (const remote of clocks.values()) remote.zoom(how);
  }
}

function clockOf(remote: Remote): Clock {
  return remote.origin === null ? "test" : "time";
}

function apply(remote: Remote, window: Ends | null): void {
  const origin = remote.origin ?? 0;
  remote.setWindow(window && [window[0] - origin, window[1] - origin]);
}
