import { expect, test } from "vitest";

import { changesOf } from "../src/app/predict/panel";

test("changes are separated by commas or spaces", () => {
  expect(changesOf("pace=19M, cc=bbr")).toEqual(["pace=19M", "cc=bbr"]);
  expect(changesOf("  policer.burst=200kB cc=bbr ")).toEqual(["policer.burst=200kB", "cc=bbr"]);
  expect(changesOf("")).toEqual([]);
});

test("the commas of a path belong to it", () => {
  expect(changesOf("path=policer:rate=20M,burst=40kB")).toEqual(["path=policer:rate=20M,burst=40kB"]);
  expect(changesOf("path=fifo:rate=20M,limit=90kB, cc=bbr")).toEqual(["path=fifo:rate=20M,limit=90kB", "cc=bbr"]);
});
