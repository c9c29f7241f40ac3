// Requests to the page's service. Every failure is an ApiError with a sentence for people.
import type * as shapes from "./types";

export class ApiError extends Error {
  constructor(readonly status: number, message: string) { super(message); }
}

export type Params = Record<string, string | number | boolean | undefined | readonly (string | number)[]>;

export function address(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) query.append(name, String(one));
  }
  const text = query.toString();
  return `/api/v1${path}${text ? `?${text}` : ""}`;
}

// How many requests are under way, for those who wait until a view is complete.
let busy = 0;
function count(by: number): void { document.documentElement.dataset["busy"] = String(busy += by); }

async function answer(path: string, init?: RequestInit): Promise<Response> {
  let found: Response;
  count(1);
  try {
    found = await fetch(path, { credentials: "same-origin", ...init });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError(0, "The page's service cannot be reached; trying again.");
  } finally { setTimeout(() => count(-1), 50); }
  if (found.ok) return found;
  let text = `The service answered ${found.status}.`;
  try {
    const body = await found.json() as shapes.Problem;
    if (body.error) text = body.error;
  } catch { /* no JSON: the sentence above */ }
  throw new ApiError(found.status, found.status === 401 ? "Your session has ended." : text);
}

export async function get<T>(path: string, params: Params = {}, signal?: AbortSignal): Promise<T> {
  return (await answer(address(path, params), signal ? { signal } : undefined)).json() as Promise<T>;
}

/** A POST whose answer is one JSON object a line; `take` gets each as it arrives. */
export async function lines<T>(path: string, body: unknown, take: (line: T) => void): Promise<void> {
  const init = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const reader = (await answer(address(path), init)).body!.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = "";;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    for (const part of parts) take(JSON.parse(part) as T);
  }
}
