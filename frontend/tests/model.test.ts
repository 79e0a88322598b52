// Tests of a reader's own model: its text, the values that sliders move along, and the order of requests.

import { describe, expect, it } from "vitest";
import { Latest } from "../src/app/model/latest";
import {
  fieldOf, isWithin, partsOf, positionOf, quantityOf, scaleAround, STEPS, textOf, valueAt, written,
  type Field, type Kind,
} from "../src/app/model/paths";
import { missingFrom, partOf, withField, withoutField } from "../src/app/model/starts";

const UNITS: Record<string, [string, number][]> = {
  rate: [["G", 1e9], ["M", 1e6], ["k", 1e3], ["", 1]],
  size: [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1], ["MiB", 1_048_576], ["KiB", 1024]],
  time: [["s", 1e9], ["ms", 1e6], ["us", 1e3], ["ns", 1]],
  packets: [["packets", 1], ["packet", 1], ["", 1]],
  share: [["", 1], ["%", 0.01]],
  count: [["", 1]],
};

function field(name: string, unit: string, required = true): Field {
  return { name, required, units: UNITS[unit] ?? [], choices: [] };
}

const FIFO: Kind = {
  name: "fifo",
  fields: [field("rate", "rate"), field("limit", "packets", false), field("limit", "size", false), { name: "in-service", required: false, units: [], choices: ["counted", "not-counted"] }],
};
const POLICER: Kind = {
  name: "policer",
  fields: [field("rate", "rate"), field("burst", "size"), field("peak-rate", "rate", false), field("peak-burst", "size", false)],
};

describe("the text of a path", () => {
  it("is the same when it is put together again", () => {
    for (const text of ["policer:rate=280M,burst=80kB", "line:rate=1G,overhead=38B+red:rate=1M,gentle+x", "", "a:b=c=d"]) {
      expect(written(partsOf(text))).toBe(text);
    }
    expect(written(partsOf(" fifo: rate=1M , limit=2 "))).toBe("fifo:rate=1M,limit=2");
  });

  it("states quantities in the units of its fields", () => {
    expect(quantityOf(field("rate", "rate"), "1.5Gbit/s")).toEqual({ digits: 1.5, unit: ["G", 1e9] });
    expect(quantityOf(field("target", "time"), "20 µs")).toEqual({ digits: 20, unit: ["us", 1e3] });
    expect(quantityOf(field("burst", "size"), "50KiB")?.unit[1]).toBe(1024);
    for (const wrong of ["", "x", "-1kB", "1e3B", "80", "80kb"]) expect(quantityOf(field("burst", "size"), wrong)).toBeNull();
  });

  it("has a limit in packets or in bytes", () => {
    expect(fieldOf(FIFO, "limit", "64packets")).toBe(FIFO.fields[1]);
    expect(fieldOf(FIFO, "limit", "64kB")).toBe(FIFO.fields[2]);
    expect(fieldOf(FIFO, "limit", "?")).toBe(FIFO.fields[1]);
    expect(fieldOf(FIFO, "burst", "1B")).toBeUndefined();
  });

  it("has numbers of three digits in a unit that suits them, and whole bytes, packets and nanoseconds", () => {
    expect(textOf(field("rate", "rate"), 279_612_345)).toBe("280M");
    expect(textOf(field("burst", "size"), 51_354.4)).toBe("51.4kB");
    expect(textOf(field("burst", "size"), 64.4)).toBe("64B");
    expect(textOf(field("limit", "packets"), 63.7)).toBe("64packets");
    expect(textOf(field("time", "time"), 0)).toBe("0ns");
    expect(textOf(field("share", "share"), 0.0123)).toBe("1.23%");
    expect(textOf(field("share", "share"), 1)).toBe("1");
    expect(textOf(field("share", "share"), 1e-9)).toBe("0.0000001%");
  });
});

describe("a slider", () => {
  it("moves from a tenth to ten times of where it begins, by factors", () => {
    const scale = scaleAround(field("rate", "rate"), 20e6);
    expect([valueAt(scale, 0), valueAt(scale, STEPS)]).toEqual([2e6, 200e6]);
    expect(positionOf(scale, 20e6)).toBe(STEPS / 2);
    expect(valueAt(scale, STEPS / 2)).toBeCloseTo(20e6);
    expect([isWithin(scale, 2e6), isWithin(scale, 201e6)]).toEqual([true, false]);
    expect(positionOf(scale, 1e12)).toBe(STEPS);
  });

  it("begins at zero where zero is usual, and ends at all of a share", () => {
    expect(scaleAround(field("overhead", "size"), 0)).toEqual({ low: 0, high: 100, log: false });
    expect(scaleAround(field("time", "time"), 0)).toEqual({ low: 0, high: 100e6, log: false });
    expect(scaleAround(field("share", "share"), 0)).toEqual({ low: 1e-4, high: 1, log: true });
  });
});

describe("elements", () => {
  it("keep what they have in common when one takes the place of another", () => {
    const [policer] = partsOf("policer:rate=7M,burst=9kB");
    expect(written([partOf(FIFO, policer)])).toBe("fifo:rate=7M");
    expect(written([partOf(POLICER, { name: "fifo", settings: [["rate", "7M"], ["limit", "9packets"]] })])).toBe("policer:rate=7M,burst=50kB");
  });

  it("get and lose both fields of a second bucket together", () => {
    const policer = partOf(POLICER);
    const [peak] = missingFrom(POLICER, policer);
    const both = withField(POLICER, policer, peak ?? field("", ""));
    expect(written([both])).toBe("policer:rate=100M,burst=50kB,peak-rate=200M,peak-burst=10kB");
    expect(missingFrom(POLICER, both)).toEqual([]);
    expect(written([withoutField(both, 3)])).toBe("policer:rate=100M,burst=50kB");
    expect(written(partsOf("fifo:rate=1M,limit=1packets,limit=1kB").map((one) => withoutField(one, 1)))).toBe("fifo:rate=1M,limit=1kB");
  });
});

describe("work on a value that changes", () => {
  it("is done for the first and the latest value", async () => {
    const done: number[] = [];
    const outdated: boolean[] = [];
    let free: () => void = () => undefined;
    const latest = new Latest<number>(async (value) => {
      await new Promise<void>((resolve) => {
        free = resolve;
      });
      done.push(value);
      outdated.push(latest.isWaiting);
    });
    const settle = async (): Promise<void> => {
      free();
      await new Promise((resolve) => setTimeout(resolve));
    };
    for (const value of [1, 2, 3, 4]) latest.ask(value);
    await settle();
    await settle();
    latest.ask(5);
    await settle();
    expect(done).toEqual([1, 4, 5]);
    expect(outdated).toEqual([true, false, false]);
  });
});
