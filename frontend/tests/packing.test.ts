import { describe, expect, it } from "vitest";
import { archive, checksum, packed } from "../src/app/browse/packing";

const text = (words: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(words) as Uint8Array<ArrayBuffer>;

// A folder as browsers hand it out: its entries in two pieces.
function folder(name: string, entries: readonly FileSystemEntry[], path = `/${name}`): FileSystemDirectoryEntry {
  const pieces = [entries.slice(0, 1), entries.slice(1), []];
  const reader = { readEntries: (done: (some: readonly FileSystemEntry[]) => void) => done(pieces.shift() ?? []) };
  return { name, fullPath: path, isDirectory: true, isFile: false, createReader: () => reader } as unknown as FileSystemDirectoryEntry;
}

function file(path: string, words: string): FileSystemEntry {
  const made = new File([words], path.split("/").at(-1) ?? "");
  return { name: made.name, fullPath: path, isDirectory: false, isFile: true, file: (done: (one: File) => void) => done(made) } as unknown as FileSystemEntry;
}

// The files that the directory at the end of an archive lists, with what is where it says.
async function listed(blob: Blob): Promise<[string, string][]> {
  const bytes = new Uint8Array(await blob.arrayBuffer());
  const view = new DataView(bytes.buffer);
  const end = bytes.length - 22;
  expect(view.getUint32(end, true)).toBe(0x06054b50);
  const found: [string, string][] = [];
  let at = view.getUint32(end + 16, true);
  for (let number = 0; number < view.getUint16(end + 10, true); number += 1) {
    expect(view.getUint32(at, true)).toBe(0x02014b50);
    const [size, length, place] = [view.getUint32(at + 24, true), view.getUint16(at + 28, true), view.getUint32(at + 42, true)];
    expect(view.getUint32(place, true)).toBe(0x04034b50);
    const begin = place + 30 + view.getUint16(place + 26, true);
    const content = bytes.slice(begin, begin + size);
    expect(view.getUint32(at + 16, true)).toBe(checksum(content));
    found.push([new TextDecoder().decode(bytes.slice(at + 46, at + 46 + length)), new TextDecoder().decode(content)]);
    at += 46 + length;
  }
  expect(at).toBe(end);
  return found;
}

describe("a folder that is dropped", () => {
  it("has the checksum of the standard", () => {
    expect(checksum(text("123456789"))).toBe(0xcbf43926);
    expect(checksum(text(""))).toBe(0);
  });

  it("is an archive of its files", async () => {
    const files = [["a/recording.json", text("{}")], ["a/größe.txt", text("")]] as const;
    expect(await listed(archive(files))).toEqual([["a/recording.json", "{}"], ["a/größe.txt", ""]]);
    expect(await listed(archive([]))).toEqual([]);
  });

  it("is read with the folders within it", async () => {
    const inner = folder("tables", [file("/one/tables/x", "rows")], "/one/tables");
    const made = await packed(folder("one", [file("/one/recording.json", "{}"), inner, file("/one/y", "z")]));
    expect(made.name).toBe("one.zip");
    expect((await listed(made)).sort()).toEqual([["one/recording.json", "{}"], ["one/tables/x", "rows"], ["one/y", "z"]]);
  });
});
