// Curves of a run, asked for together: charts in view with the same query share a request.
import { get } from "../api/client";
import type { CurveShape } from "../api/types";

export interface CurveQuery { axis: string; points: number; first?: number | undefined; last?: number | undefined }
interface Wish { name: string; have: number; resolve: (curve: CurveShape | undefined) => void; reject: (error: Error) => void }

const MAX_NAMES = 32;
const waiting = new Map<string, Wish[]>();

/** The curve, or undefined when the state with the number `have` is the newest. */
export function askCurve(run: string, name: string, query: CurveQuery, have: number): Promise<CurveShape | undefined> {
  const key = JSON.stringify([run, query]);
  return new Promise((resolve, reject) => {
    const wishes = waiting.get(key);
    if (wishes) { wishes.push({ name, have, resolve, reject }); return; }
    waiting.set(key, [{ name, have, resolve, reject }]);
    setTimeout(() => {
      const all = waiting.get(key)!;
      waiting.delete(key);
      for (let at = 0; at < all.length; at += MAX_NAMES) void send(run, query, all.slice(at, at + MAX_NAMES));
    });
  });
}

async function send(run: string, query: CurveQuery, wishes: readonly Wish[]): Promise<void> {
  try {
    const found = await get<CurveShape[]>(`/runs/${encodeURIComponent(run)}/curves`,
      { ...query, name: wishes.map((one) => one.name), have: wishes.map((one) => one.have) });
    const named = new Map(found.map((one) => [one.name, one]));
    for (const wish of wishes) wish.resolve(named.get(wish.name));
  } catch (error) {
    for (const wish of wishes) wish.reject(error as Error);
  }
}
