// Keyboard shortcuts of the page; none acts while somebody types.
import { useEffect } from "preact/hooks";
import { Store } from "../state/store";

export interface Shortcut { key: string; text: string; act: (event: KeyboardEvent) => void }

export const shortcuts = new Store<readonly Shortcut[]>([]);

export function useKeys(own: readonly Shortcut[]): void {
  useEffect(() => {
    shortcuts.set([...shortcuts.get(), ...own]);
    return () => shortcuts.set(shortcuts.get().filter((one) => !own.includes(one)));
  });
}

addEventListener("keydown", (event) => {
  const at = event.target as HTMLElement;
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (at.matches("input:not([type=checkbox]), textarea, select, [contenteditable]")) return;
  const found = shortcuts.get().findLast((one) => one.key === event.key);
  if (!found) return;
  event.preventDefault();
  found.act(event);
});
