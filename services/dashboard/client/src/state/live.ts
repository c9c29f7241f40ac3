// One stream of changes for the page. It states honestly whether it is connected, and comes back by itself.
import { ApiError, address, get } from "../api/client";
import type { SessionShape } from "../api/types";
import { Store } from "./store";

export type Connection = "connecting" | "live" | "away" | "ended";
interface Change {
  epoch: string; version: number; all: number; trouble: string;
  runs: Record<string, [number, number]>;
}

export const connection = new Store<Connection>("connecting");
/** Why what is shown may be old; empty while it is not. */
export const trouble = new Store("");
/** Numbers of the newest changes. A new process of the service counts anew: its epoch is another. */
export const changes = new Store<Change>({ epoch: "", version: 0, all: 0, trouble: "", runs: {} });
export const session = new Store<SessionShape | null>(null);

// The service sends something at least every ten seconds.
const SILENCE_MS = 25_000, CHECK_MS = 1_000;
let source: EventSource | null = null, watched = "", heard = Date.now(), retry = 0;

export function watch(runs: readonly string[]): void {
  const wanted = [...runs].sort().slice(0, 64).join(" ");
  if (source && wanted === watched) return;
  watched = wanted;
  open();
}

function open(): void {
  clearTimeout(retry);
  source?.close();
  heard = Date.now();
  const stream = source = new EventSource(address("/events", { run: watched ? watched.split(" ") : [] }));
  stream.onmessage = (event) => {
    heard = Date.now();
    const change = JSON.parse(event.data as string) as Change;
    trouble.set(change.trouble);
    changes.set(change);
    connection.set("live");
  };
  stream.addEventListener("alive", () => { heard = Date.now(); connection.set("live"); });
  stream.onerror = () => { if (source === stream) void lost(stream); };
}

async function lost(stream: EventSource): Promise<void> {
  if (connection.get() !== "ended") connection.set("away");
  if (stream.readyState !== EventSource.CLOSED) return; // the browser connects again
  await identify();
  clearTimeout(retry);
  retry = window.setTimeout(open, 2_000);
}

/** Ask who is logged in; states that the session has ended when it has. */
export async function identify(): Promise<void> {
  try {
    session.set(await get<SessionShape>("/session"));
    if (connection.get() === "ended") connection.set("connecting");
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) connection.set("ended");
  }
}

setInterval(() => {
  if (connection.get() === "live" && Date.now() - heard > SILENCE_MS) { connection.set("away"); open(); }
}, CHECK_MS);
document.addEventListener("visibilitychange", () => {
  // A laptop that slept: its connection may be dead without having been closed.
  if (!document.hidden && Date.now() - heard > SILENCE_MS) open();
});
