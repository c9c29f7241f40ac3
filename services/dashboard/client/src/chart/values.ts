// What charts compute from values: smoothing, ranges, CSV. Pure.
export type Values = readonly (number | null)[];

/** An exponential mean without bias at the start; a mean lies among its values, whatever rounding says. */
export function smooth(values: Values, weight: number): (number | null)[] {
  if (!weight) return [...values];
  let mean = 0, total = 0, low = Infinity, high = -Infinity;
  return values.map((value) => {
    if (value === null) return null;
    mean = mean * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    low = Math.min(low, value);
    high = Math.max(high, value);
    return Math.min(high, Math.max(low, mean / total));
  });
}

/** The range of the value axis. Equal values, apart from rounding, lie in the middle as a flat line. */
export function valueRange(low: number, high: number, logarithmic: boolean): [number, number] {
  if (!(low <= high)) return [0, 1];
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (high - low <= 1e-9 * size) {
    if (logarithmic) return [low / 2, high * 2];
    const room = size / 10 || 1;
    return [low - room, high + room];
  }
  if (logarithmic) return [low, high];
  const room = (high - low) * 0.05;
  return [low - room, high + room];
}

/** Without the outermost hundredth at each end, widened: single spikes do not flatten the curve. */
export function robustRange(values: Values): [number, number] {
  const sorted = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
  if (!sorted.length) return [Infinity, -Infinity];
  const at = (part: number) => sorted[Math.min(sorted.length - 1, Math.max(0, Math.round(part * (sorted.length - 1))))]!;
  const low = at(0.01), high = at(0.99), room = (high - low) * 0.1;
  return [Math.max(sorted[0]!, low - room), Math.min(sorted.at(-1)!, high + room)];
}

export function csv(columns: readonly string[], rows: readonly (readonly (number | string | null)[])[]): string {
  const quoted = (value: number | string | null) => value === null ? "" : /[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value);
  return [columns, ...rows].map((row) => row.map(quoted).join(",")).join("\n") + "\n";
}

/** Several curves on one axis of their joined places; places that a curve does not have are `undefined`: a gap that is bridged. */
export function joined(curves: readonly { x: Values; columns: readonly Values[] }[]): [number[], (number | null | undefined)[][]] {
  if (curves.length === 1) return [[...curves[0]!.x] as number[], curves[0]!.columns.map((one) => [...one])];
  const xs = [...new Set(curves.flatMap((one) => one.x.filter((x): x is number => x !== null)))].sort((a, b) => a - b);
  const places = new Map(xs.map((x, at) => [x, at]));
  const columns = curves.flatMap((one) => one.columns.map((values) => {
    const row: (number | null | undefined)[] = new Array<undefined>(xs.length).fill(undefined);
    one.x.forEach((x, at) => { if (x !== null) row[places.get(x)!] = values[at]!; });
    return row;
  }));
  return [xs, columns];
}
