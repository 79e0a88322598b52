import { expect, test } from "vitest";

import { inWords, type State } from "../src/app/rolling";

const STATE: State = {
  running: true, interface: "eth0", filter: "", seconds: 30, most_bytes: 256e6, triggers: { loss_packets: null, delay_s: null, limits: [] },
  packets: 1, buffered_s: 12, buffered_bytes: 1234, dropped: 0, unwritten: 0, pending: "", skipped: 0, problem: "", messages: [], kept: [],
};
const plain = (state: Partial<State>): string => inWords({ ...STATE, ...state }).replaceAll("\u00a0", " ");

test("the state names what is on disk, and that nothing but the reader keeps it", () => {
  expect(plain({})).toBe("Capturing: 12 s and 1.23 kB of eth0 on disk, 1 packet captured, 0 dropped by the kernel. Triggers: none, only you keep.");
});

test("the filter and the triggers of the capture that runs are said, and losses of packets", () => {
  const words = plain({
    filter: "port 443", dropped: 7, unwritten: 2000, skipped: 1, pending: "3 lost", triggers: { loss_packets: 3, delay_s: 0.2, limits: ["network"] },
  });
  expect(words).toContain("of eth0 (port 443) on disk");
  expect(words).toContain("7 dropped by the kernel, 2 000 not written, since the disk is full, 1 trigger skipped");
  expect(words).toContain("Triggers: 3 retransmissions within 1 s, RTT above 0.2 s, limited by network.");
  expect(words).toContain("Trigger: 3 lost; what follows is being captured.");
});
