// Sparklines: the return by step of each run in view, from telemetry, for ended and running runs alike.
import { get } from "../../api/client";
import type { SparkShape } from "../../api/types";
import { Store } from "../../state/store";

const MAX_AT_ONCE = 40, PAUSE_MS = 250, OLD_MS = 10_000;
interface Known { values: number[]; version: number; at: number }

const known = new Map<string, Known>();
export const sparksDrawn = new Store(0);
let waiting = new Map<string, number>(), timer = 0, asking = false;

export function sparkOf(id: string, version: number): readonly number[] | undefined {
  const found = known.get(id);
  if (!found || (found.version !== version && Date.now() - found.at > OLD_MS)) {
    waiting.set(id, version);
    timer ||= window.setTimeout(ask, PAUSE_MS);
  }
  return found?.values;
}

async function ask(): Promise<void> {
  timer = 0;
  if (asking || !waiting.size || document.hidden) return;
  asking = true;
  // The newest wishes first: rows that were scrolled by are asked for when they are seen again.
  const some = [...waiting].slice(-MAX_AT_ONCE);
  waiting = new Map();
  try {
    const found = await get<SparkShape[]>("/runs/sparks", { run: some.map(([id]) => id) });
    const at = Date.now(), versions = new Map(some);
    for (const one of found) known.set(one.run, { values: one.values.filter((value) => value !== null), version: versions.get(one.run)!, at });
    while (known.size > 2000) known.delete(known.keys().next().value!);
    sparksDrawn.set(sparksDrawn.get() + 1);
  } catch { /* asked again when they are drawn again */ } finally {
    asking = false;
    if (waiting.size) timer ||= window.setTimeout(ask, PAUSE_MS);
  }
}
