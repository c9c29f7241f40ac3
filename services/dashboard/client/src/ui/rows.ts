// Which rows of a long list are in view.
import { useEffect, useRef, useState } from "preact/hooks";

// Browsers do not draw elements higher than some tens of millions of pixels: longer lists scroll faster than one to one.
const MAX_HEIGHT = 8_000_000;
const MORE_ROWS = 6;

export interface Rows {
  ref: { current: HTMLDivElement | null };
  first: number; last: number; height: number;
  top: (row: number) => number;
  show: (row: number) => void;
  atEnd: () => boolean;
}

export function useRows(total: number, rowHeight: number): Rows {
  const ref = useRef<HTMLDivElement | null>(null);
  const [view, set] = useState({ top: 0, height: 600 });
  const real = total * rowHeight, height = Math.min(real, MAX_HEIGHT);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    let asked = 0;
    const read = () => { asked = 0; set((old) => old.top === element.scrollTop && old.height === element.clientHeight ? old : { top: element.scrollTop, height: element.clientHeight }); };
    const later = () => { asked ||= requestAnimationFrame(read); };
    const sizes = new ResizeObserver(later);
    sizes.observe(element);
    element.addEventListener("scroll", later, { passive: true });
    read();
    return () => { sizes.disconnect(); element.removeEventListener("scroll", later); cancelAnimationFrame(asked); };
  }, []);
  const room = Math.max(1, height - view.height), virtual = Math.max(0, real - view.height);
  const scrolled = real > height ? Math.min(1, view.top / room) * virtual : view.top;
  const shift = view.top - scrolled;
  return {
    ref, height,
    first: Math.max(0, Math.floor(scrolled / rowHeight) - MORE_ROWS),
    last: Math.min(total, Math.ceil((scrolled + view.height) / rowHeight) + MORE_ROWS),
    top: (row) => row * rowHeight + shift,
    show: (row) => {
      const element = ref.current;
      if (!element) return;
      const wanted = row * rowHeight;
      const tall = element.clientHeight;
      const max = Math.max(0, total * rowHeight - tall);
      const current = real > height ? (element.scrollTop / Math.max(1, height - tall)) * max : element.scrollTop;
      let next = current;
      if (wanted < current) next = wanted;
      else if (wanted + rowHeight > current + tall) next = wanted + rowHeight - tall;
      if (next !== current) element.scrollTop = real > height ? (next / Math.max(1, max)) * (height - tall) : next;
    },
    atEnd: () => { const e = ref.current; return !e || e.scrollTop + e.clientHeight >= e.scrollHeight - 2 * rowHeight; },
  };
}
