// Tests of what the Open view says in its address, and of the files that figures become.

import { describe, expect, it } from "vitest";
import { linkOf, stateOf, windowOf } from "../src/app/open_state";
import { countOf, since } from "../src/app/packets";
import { timeLeft } from "../src/app/time_left";
import { csvOf } from "../src/figures/saving";
import { escapeXml, SvgContext } from "../src/figures/svg";
import { showsAll } from "../src/figures/chart";
import { nextLoss } from "../src/figures/figures";
import type { Axis, Figure, Layer } from "../src/figures/figure";

const AXIS: Axis = { title: "", scale: "linear", ends: [0, 1], fixed: false, fromZero: "never", words: [], zeros: null };

function figure(layers: Partial<Layer>[], title = ""): Figure {
  const made = layers.map((values): Layer => ({
    name: "", style: 0, mark: "points", rare: false, helper: false, counted: false, stretch: true, rows: 0, shown: 0,
    visible: true, reach: 0, ...values,
  }));
  const panel = { title, zoom: "time", x: AXIS, y: AXIS, legendTitle: "", legend: [], height: 100, layers: made };
  return { key: "rtt", title: "", subtitle: "", see: "", notes: [], columns: 1, legend: null, panels: [panel] };
}

describe("the address of an analysis", () => {
  it("holds everything that it is read from", () => {
    const link = "?source=a&source=b&filter=tcp.port+%3D%3D+443&begin=1&end=2&flow=x+%3E+y&shown=charts%3A2"
      + "&zoom=1795289988.455241..1795289988.555241&zoom_test=-1.000000..2.500000&packets=true&lost=true"
      + "&model=0%3Apolicer%3Arate%3D280M%2Cburst%3D80kB%2Bdelay%3Atime%3D1ms&model=3%3A";
    expect(linkOf(stateOf(link))).toBe(link);
  });

  it("leaves out what is no window, and what is shown anyway", () => {
    for (const wrong of ["", "1", "2..1", "1..1", "a..b", "1..2..3", "NaN..2"]) expect(windowOf(wrong)).toBeNull();
    expect(linkOf(stateOf("?zoom=2..1&shown=charts:0&packets=no"))).toBe("");
  });
});

describe("times", () => {
  it("of packets keep all digits of nanoseconds since 1970", () => {
    expect(since("1795289988455241999", 1795289988455240000n)).toBe("0.000001");
    expect(since("1795289988455240000", 1795289990455240000n)).toBe("−2.000000");
    expect(since(null, 0n)).toBe("–");
  });

  it("left are said once something is known of the speed", () => {
    expect(timeLeft(10, 100, 0)).toBe("");
    expect(timeLeft(20, 100, 500)).toBe("");
    expect(timeLeft(30, 100, 2000)).toBe(", about 7\u00a0s left");
    expect(timeLeft(100, 100, 9000)).toBe("");
  });

  it("of losses are found one after the other, in both directions", () => {
    const losses = [10, 11, 50, 110];
    expect(nextLoss(losses, [0, 200], 1)).toEqual([9.8, 10.8]);
    expect(nextLoss(losses, [9, 14], 1)).toEqual([49, 54]);
    expect(nextLoss(losses, [49, 54], -1)).toEqual([7, 12]);
    expect(nextLoss(losses, [0, 200], -1)).toEqual([109.2, 110.2]);
    expect(nextLoss(losses, [109, 114], 1)).toBeNull();
    expect(nextLoss([], [0, 1], 1)).toBeNull();
  });

  it("are all shown by a window that was rounded, and not by a narrower one", () => {
    expect(showsAll({ window: [1e-9, 10], all: [0, 10] })).toBe(true);
    expect(showsAll({ window: [0.1, 10], all: [0, 10] })).toBe(false);
  });
});

describe("files of a figure", () => {
  it("list each mark once, and no cell that a spreadsheet would run", () => {
    const text = csvOf(figure([
      { name: "=lost", x: [1, 2], y: [-3, NaN] }, { name: "again", x: [1], helper: true }, { name: 'a "b", c', mark: "text", x: [0], y: [0], text: ["w"] },
    ], "-1+1"));
    expect(text.split("\n")).toEqual([
      "figure,panel,mark,x,y,x2,y2,text", "rtt,-1+1,'=lost,1,-3,,,", "rtt,-1+1,'=lost,2,,,,", 'rtt,-1+1,"a ""b"", c",0,0,,,w', "",
    ]);
  });

  it("are SVG in which names are text, whatever is in them", () => {
    const svg = new SvgContext("f");
    svg.fillText('</text><script>"&\u0001', 1, 2);
    expect(svg.body).not.toContain("<script");
    expect(svg.body).not.toContain("\u0001");
    expect(escapeXml("<&>\"'")).toBe("&#60;&#38;&#62;&#34;&#39;");
  });

  it("keep colours, dashes and clips within what saved and restored them", () => {
    const svg = new SvgContext("f");
    svg.save();
    svg.rect(0, 0, 10, 10);
    svg.clip();
    svg.strokeStyle = "red";
    svg.setLineDash([2, 1]);
    svg.beginPath();
    svg.moveTo(0, NaN);
    svg.lineTo(1, 1);
    svg.lineTo(2.004, 2);
    svg.stroke();
    svg.restore();
    svg.fillRect(0, 0, 1, 1);
    const [, clipped, plain] = svg.body.split("\n");
    expect(clipped).toContain('d="M1 1L2 2"');
    expect(clipped).toContain('stroke="red"');
    expect(clipped).toContain('stroke-dasharray="2 1" clip-path="url(#f-clip-1)"');
    expect(plain).not.toContain("clip-path");
  });
});

describe("the number of packets", () => {
  it("is that of the window, or says that there are others", () => {
    const words = (rows: number, hasMore: boolean, window: [number, number] | null): string =>
      countOf({ rows: Array.from({ length: rows }, () => ({})), has_more: hasMore }, window).replaceAll("\u00a0", " ");
    expect(words(1, false, null)).toBe("1 packet.");
    expect(words(37, false, [1, 1.5])).toBe("37 packets in 0.5 s.");
    expect(words(500, true, [1, 3.5])).toBe("The first 500 packets in 2.5 s; zoom in to see the others.");
  });
});
