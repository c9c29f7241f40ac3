// The address is the state: paths below /app, and a query that views change.
import { Store } from "./store";

export interface Place { path: string[]; query: URLSearchParams }

const ROOT = "/app";
const here = (): Place => ({
  path: location.pathname.slice(ROOT.length).split("/").filter(Boolean).map(decodeURIComponent),
  query: new URLSearchParams(location.search),
});
export const place = new Store<Place>(here());
addEventListener("popstate", () => place.set(here()));

export function link(path: readonly string[], query: Record<string, string | readonly string[] | undefined> = {}): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of typeof value === "string" ? [value] : value ?? []) if (one) found.append(name, one);
  }
  const text = found.toString();
  return `${ROOT}/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

export function go(href: string, replace = false): void {
  if (replace) history.replaceState(null, "", href); else history.pushState(null, "", href);
  place.set(here());
}

/** Change some of the query; an empty value removes its name. */
export function amend(changes: Record<string, string | readonly string[] | undefined>, replace = true): void {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    query.delete(name);
    for (const one of typeof value === "string" ? [value] : value ?? []) if (one) query.append(name, one);
  }
  const text = query.toString();
  go(location.pathname + (text ? `?${text}` : ""), replace);
}

/** Links to views are followed without loading the page again. */
export function followLinks(): void {
  addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const found = (event.target as Element | null)?.closest?.("a");
    if (!found || found.target || found.hasAttribute("download") || found.origin !== location.origin) return;
    if (found.pathname !== ROOT && !found.pathname.startsWith(`${ROOT}/`)) return;
    event.preventDefault();
    go(found.pathname + found.search);
    scrollTo(0, 0);
  });
}
