// What a component fetched, kept while it is fetched again.
import { useEffect, useRef, useState } from "preact/hooks";

export interface Fetched<T> { data: T | undefined; error: string; loading: boolean; again: () => void }

const RETRY_MS = 3_000;

/** Fetch when `key` or `version` changes. Another key drops the data, another version keeps it meanwhile. */
export function useFetched<T>(key: string, version: unknown, fetcher: (signal: AbortSignal) => Promise<T>): Fetched<T> {
  const [state, set] = useState<{ key: string; data: T | undefined; error: string; loading: boolean }>(
    { key, data: undefined, error: "", loading: true });
  const [turn, next] = useState(0);
  const running = useRef<{ key: string; due: boolean } | null>(null);
  useEffect(() => {
    if (!key) return undefined;
    // One request at a time: a newer version waits for the answer under way.
    if (running.current?.key === key) { running.current.due = true; return undefined; }
    const own = running.current = { key, due: false };
    const controller = new AbortController();
    let retry = 0;
    fetcher(controller.signal).then(
      (data) => { if (running.current === own) set({ key, data, error: "", loading: false }); },
      (error: Error) => {
        if (running.current !== own || controller.signal.aborted) return;
        set((old) => ({ key, data: old.key === key ? old.data : undefined, error: error.message, loading: false }));
        retry = window.setTimeout(() => next((n) => n + 1), RETRY_MS);
      },
    ).finally(() => {
      if (running.current !== own) return;
      running.current = null;
      if (own.due) next((n) => n + 1);
    });
    aborts.current = () => { clearTimeout(retry); controller.abort(); if (running.current === own) running.current = null; };
    return undefined;
  }, [key, version, turn]);
  const aborts = useRef<() => void>(() => {});
  useEffect(() => () => aborts.current(), [key]);
  const own = state.key === key;
  return {
    data: own ? state.data : undefined, error: own ? state.error : "", loading: !own || state.loading,
    again: () => next((n) => n + 1),
  };
}
