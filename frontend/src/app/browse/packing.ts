// A folder as a ZIP archive, not compressed: recordings are folders of compressed tables.

const MOST_FILES = 5000;
const MOST_BYTES = 1e9;

interface Packed {
  name: Uint8Array;
  checksum: number;
  size: number;
  at: number;
}

const CRC = Uint32Array.from({ length: 256 }, (_, value) => {
  let found = value;
  for (let bit = 0; bit < 8; bit += 1) found = found & 1 ? (found >>> 1) ^ 0xedb88320 : found >>> 1;
  return found >>> 0;
});

export function checksum(bytes: Uint8Array): number {
  let found = 0xffffffff;
  for (const byte of bytes) found = (found >>> 8) ^ (CRC[(found ^ byte) & 0xff] ?? 0);
  return (found ^ 0xffffffff) >>> 0;
}

// The archive of files with their paths.
export function archive(files: readonly (readonly [string, Uint8Array<ArrayBuffer>])[]): Blob {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  const listed: Packed[] = [];
  let at = 0;
  const add = (part: Uint8Array<ArrayBuffer>): void => {
    parts.push(part);
    at += part.length;
  };
  for (const [path, content] of files) {
    const one = { name: new TextEncoder().encode(path), checksum: checksum(content), size: content.length, at };
    listed.push(one);
    add(header(0x04034b50, one));
    add(one.name as Uint8Array<ArrayBuffer>);
    add(content);
  }
  const directory = at;
  for (const one of listed) {
    add(header(0x02014b50, one));
    add(one.name as Uint8Array<ArrayBuffer>);
  }
  const end = new DataView(new ArrayBuffer(22));
  end.setUint32(0, 0x06054b50, true);
  end.setUint16(8, listed.length, true);
  end.setUint16(10, listed.length, true);
  end.setUint32(12, at - directory, true);
  end.setUint32(16, directory, true);
  parts.push(new Uint8Array(end.buffer));
  return new Blob(parts, { type: "application/zip" });
}

// That before a file, or that in the directory at the end.
function header(magic: number, one: Packed): Uint8Array<ArrayBuffer> {
  const isOfDirectory = magic === 0x02014b50;
  const view = new DataView(new ArrayBuffer(isOfDirectory ? 46 : 30));
  const from = isOfDirectory ? 6 : 4;
  view.setUint32(0, magic, true);
  if (isOfDirectory) view.setUint16(4, 20, true);
  view.setUint16(from, 20, true);
  // The name is UTF-8.
  view.setUint16(from + 2, 0x0800, true);
  // 1 January 1980, the first day of ZIP.
  view.setUint16(from + 8, 0x21, true);
  view.setUint32(from + 10, one.checksum, true);
  view.setUint32(from + 14, one.size, true);
  view.setUint32(from + 18, one.size, true);
  view.setUint16(from + 22, one.name.length, true);
  if (isOfDirectory) view.setUint32(42, one.at, true);
  return new Uint8Array(view.buffer);
}

// A dropped folder as a file to send.
export async function packed(folder: FileSystemDirectoryEntry): Promise<File> {
  const files: File[] = [];
  const paths: string[] = [];
  let bytes = 0;
  for (const waiting: FileSystemDirectoryEntry[] = [folder]; waiting.length > 0;) {
    for (const entry of await entriesOf(waiting.pop() ?? folder)) {
      if (entry.isDirectory) {
        waiting.push(entry as FileSystemDirectoryEntry);
        continue;
      }
      const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
      bytes += file.size;
      files.push(file);
      paths.push(entry.fullPath.replace(/^\//, ""));
      if (files.length > MOST_FILES || bytes > MOST_BYTES) {
        throw new Error("a folder of more than 5000 files, or more than 1 GB. Copy it into a folder of this page: it is listed there by itself");
      }
    }
  }
  const contents = await Promise.all(files.map(async (file) => new Uint8Array(await file.arrayBuffer())));
  return new File([archive(contents.map((content, at) => [paths[at] ?? "", content] as const))], `${folder.name}.zip`);
}

// A reader gives some at a time, and none at the end.
async function entriesOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const found: FileSystemEntry[] = [];
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return found;
    found.push(...some);
  }
}
