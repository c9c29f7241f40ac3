// Values for people.
export function compact(value: number | null | undefined): string {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const size = Math.abs(value);
  if (size >= 1e9) return `${+(value / 1e9).toPrecision(3)}G`;
  if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
  if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
  return size && size < 1e-4 ? value.toExponential(2) : String(+value.toPrecision(4));
}

export function whole(value: number): string { return value.toLocaleString("en"); }

export function span(seconds: number | null): string {
  if (seconds === null) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const s = Math.floor(seconds);
  const parts: [number, string][] = [[Math.floor(s / 86400), "d"], [Math.floor(s / 3600) % 24, "h"], [Math.floor(s / 60) % 60, "m"], [s % 60, "s"]];
  const first = parts.findIndex(([n]) => n > 0);
  return (first < 0 ? parts.slice(3) : parts.slice(first, first + 2)).filter(([n], i) => n || !i).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

export function ago(at: number, now: number): string {
  if (!at) return "–";
  const seconds = Math.max(0, (now - at) / 1000);
  return seconds < 5 ? "now" : `${span(seconds < 3600 ? seconds : Math.floor(seconds / 60) * 60).split(" ").slice(0, 2).join(" ")} ago`;
}

export function moment(at: number): string { return at ? new Date(at).toLocaleString() : "–"; }

export function bytes(size: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (size >= 1000 && at < units.length - 1) { size /= 1000; at++; }
  return `${at ? +size.toPrecision(3) : size} ${units[at]}`;
}

export function count(number: number, word: string): string { return `${whole(number)} ${word}${number === 1 ? "" : "s"}`; }
