// Line icons, drawn here: no font and no request.
const PATHS = {
  runs: "M4 6h16M4 12h16M4 18h10",
  compare: "M4 19l5-8 4 4 7-11M4 5v14h16",
  add: "M12 5v14M5 12h14",
  play: "M7 5l12 7-12 7z",
  pause: "M8 5v14M16 5v14",
  box: "M4 8l8-4 8 4v8l-8 4-8-4zM4 8l8 4 8-4M12 12v8",
  fleet: "M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01",
  sun: "M12 8a4 4 0 100 8 4 4 0 000-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M19 5l-1.4 1.4M6.4 17.6L5 19",
  moon: "M20 14A8 8 0 1110 4a7 7 0 0010 10z",
  auto: "M12 3a9 9 0 100 18zM12 3a9 9 0 010 18",
  close: "M6 6l12 12M18 6L6 18",
  columns: "M4 5h16v14H4zM10 5v14M15 5v14",
  up: "M12 19V5M6 11l6-6 6 6",
  down: "M12 5v14M6 13l6 6 6-6",
  left: "M15 5l-7 7 7 7",
  right: "M9 5l7 7-7 7",
  more: "M6 12h.01M12 12h.01M18 12h.01",
  save: "M6 4h12v16l-6-4-6 4z",
  download: "M12 4v11M7 11l5 5 5-5M5 20h14",
  tag: "M4 12V4h8l8 8-8 8zM8 8h.01",
  stop: "M6 6h12v12H6z",
  search: "M11 4a7 7 0 100 14 7 7 0 000-14zM16 16l4 4",
  wide: "M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5",
  first: "M6 5v14M19 5l-9 7 9 7z",
  last: "M18 5v14M5 5l9 7-9 7z",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return <svg class="icon" viewBox="0 0 24 24" aria-hidden="true"><path d={PATHS[name]} /></svg>;
}
