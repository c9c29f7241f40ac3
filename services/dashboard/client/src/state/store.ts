// Values that several components share, and values that the browser keeps.
import { useEffect, useState } from "preact/hooks";

export class Store<T> {
  private listeners = new Set<(value: T) => void>();
  constructor(private value: T) {}
  get = (): T => this.value;
  set(value: T): void {
    if (Object.is(value, this.value)) return;
    this.value = value;
    for (const tell of [...this.listeners]) tell(value);
  }
  on(tell: (value: T) => void): () => void {
    this.listeners.add(tell);
    return () => { this.listeners.delete(tell); };
  }
}

export function useStore<T>(store: Store<T>): T {
  const [, draw] = useState(0);
  const value = store.get();
  useEffect(() => {
    // It may have changed between the drawing and now.
    if (!Object.is(value, store.get())) draw((n) => n + 1);
    return store.on(() => draw((n) => n + 1));
  }, [store]);
  return value;
}

/** A store that the browser keeps, shared by all its tabs. */
export function kept<T>(name: string, initial: T): Store<T> {
  const key = `runspine.${name}`;
  const read = (text: string | null): T => {
    try { return text === null ? initial : JSON.parse(text) as T; } catch { return initial; }
  };
  const store = new Store<T>(read(localStorage.getItem(key)));
  store.on((value) => {
    try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* a full or closed storage: not kept */ }
  });
  addEventListener("storage", (event) => { if (event.key === key) store.set(read(event.newValue)); });
  return store;
}
