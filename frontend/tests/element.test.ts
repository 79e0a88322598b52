// Tests of text from outside as pages show it.

import { describe, expect, it } from "vitest";
import { visible } from "../src/figures/element";

describe("text from outside", () => {
  it("has its control characters and changes of direction made visible", () => {
    expect(visible("a\u202egpj.pcap")).toBe("a\\u202egpj.pcap");
    expect(visible("\x1b[31m\0")).toBe("\\x1b[31m\\x00");
    expect(visible("\u2066x\u2069\u{e0041}")).toBe("\\u2066x\\u2069\\U000e0041");
  });

  it("is left as it is where it has none", () => {
    expect(visible("größer <b> 日本 💩\n\t5\u00a0ms")).toBe("größer <b> 日本 💩\n\t5\u00a0ms");
  });
});
