import { useEffect } from "preact/hooks";

/** The title of the browser's tab. */
export function useTitle(text: string): void {
  useEffect(() => { document.title = text ? `${text} · Runspine` : "Runspine"; }, [text]);
}
