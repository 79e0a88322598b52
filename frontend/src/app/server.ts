// Requests to the server, and the events that it sends.

export interface Entry {
  id: string;
  path: string;
  kind: "recording" | "capture" | "store" | "file";
  size_bytes: number;
  name: string;
  title: string;
  started_s: number | null;
  duration_s: number | null;
  status: string;
  problem: string;
  tags: string[];
  note: string;
  // Of the tags and the note: sent along with changes of them.
  revision: number;
  values: Record<string, string>;
}

export interface Found {
  count: number;
  entries: Entry[];
  unknown_keys: string[];
}

export interface Job {
  id: string;
  kind: "analysis" | "comparison" | "run" | "study";
  about: Record<string, unknown>;
  state: string;
  progress: Record<string, unknown>;
  problem: string;
}

// The server says why it cannot; a server that does not answer is a problem, too.
export class Failure extends Error {
  // The status of the answer, 0 without one; and what is wrong with single fields of what was sent.
  constructor(message: string, readonly status = 0, readonly fields: Record<string, string> = {}) {
    super(message);
  }
}

// The words of anything that was thrown.
export function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}

export async function ask<T>(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<T> {
  return (await (await request(method, path, body, signal)).json()) as T;
}

export async function askBytes(path: string): Promise<ArrayBuffer> {
  return (await request("GET", path)).arrayBuffer();
}

async function request(method: string, path: string, body?: unknown, signal?: AbortSignal): Promise<Response> {
  let answer: Response;
  try {
    answer = await fetch(path, {
      method,
      ...(signal ? { signal } : {}),
      ...(body === undefined ? {} : { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } }),
    });
  } catch (reason) {
    if (signal?.aborted) throw reason;
    throw new Failure("The server does not answer: does `whydrop web` still run?");
  }
  if (answer.ok) return answer;
  const text = await answer.text();
  throw new Failure((problemIn(text) ?? text.trim()) || answer.statusText, answer.status, fieldsIn(text));
}

function problemIn(text: string): string | null {
  try {
    const found = JSON.parse(text) as { error?: unknown };
    return typeof found.error === "string" ? found.error : null;
  } catch {
    return null;
  }
}

function fieldsIn(text: string): Record<string, string> {
  try {
    const found = JSON.parse(text) as { fields?: unknown };
    return typeof found.fields === "object" && found.fields !== null ? (found.fields as Record<string, string>) : {};
  } catch {
    return {};
  }
}

const MOST_STORES = 200;

// The stores in the folders of the server, by name.
export async function stores(): Promise<Entry[]> {
  return (await ask<Found>("GET", `/api/library${query({ q: "kind=store", limit: MOST_STORES, sort: ["name"] })}`)).entries;
}

export type Values = Record<string, string | number | boolean | readonly string[] | null | undefined>;

export function query(values: Values): string {
  const made = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? (value as readonly string[]) : [String(value)]) made.append(name, one);
  }
  const text = made.toString();
  return text ? `?${text}` : "";
}

// Calls `onEvent` with the events of a topic, or of several in one stream, until the returned function is called;
// `onConnected` hears of a connection that breaks, and of its return.
export function listen<T>(
  topic: string | readonly string[],
  onEvent: (data: T, topic: string) => void,
  onReset: () => void = () => undefined,
  onConnected: (isThere: boolean) => void = () => undefined,
): () => void {
  const source = new EventSource(`/api/events${query({ topic })}`);
  source.addEventListener("message", (event: MessageEvent<string>) => {
    const { data, topic: about } = JSON.parse(event.data) as { data: T; topic: string };
    onEvent(data, about);
  });
  source.addEventListener("reset", onReset);
  source.addEventListener("open", () => onConnected(true));
  source.addEventListener("error", () => onConnected(false));
  return () => source.close();
}

export async function upload(file: File, onProgress: (share: number) => void): Promise<string> {
  return (await uploadAll(file, onProgress))[0] ?? "";
}

// A ZIP archive may hold several entries.
export async function uploadAll(file: File, onProgress: (share: number) => void): Promise<string[]> {
  // fetch() cannot report how much it has sent.
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/uploads${query({ name: file.name })}`);
    request.upload.addEventListener("progress", (event) => onProgress(event.loaded / Math.max(1, event.total)));
    request.addEventListener("error", () => reject(new Failure("The server does not answer.")));
    request.addEventListener("load", () => {
      if (request.status === 200) resolve((JSON.parse(request.responseText) as { ids: string[] }).ids);
      else reject(new Failure(problemIn(request.responseText) ?? request.statusText));
    });
    request.send(file);
  });
}
