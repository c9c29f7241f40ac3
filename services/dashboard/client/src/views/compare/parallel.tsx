// Parallel coordinates: one line for each run through its parameters, ending in its metric.
import { get } from "../../api/client";
import type { DifferenceShape, RunsPage } from "../../api/types";
import { useFetched } from "../../state/query";
import { compact } from "../../ui/format";

const WIDTH = 900, HEIGHT = 240, TOP = 28, BOTTOM = 24, SIDE = 70, MAX_AXES = 8;

interface AxisShape { name: string; place: (value: string) => number | null; low: string; high: string }

/** The place of a value on its axis from 0 to 1: by size when all are numbers, else by order of the words. */
export function axisOf(name: string, values: readonly string[]): AxisShape {
  const known = values.filter((value) => value !== "–"), numbers = known.map(Number);
  if (known.length && numbers.every(Number.isFinite)) {
    const low = Math.min(...numbers), high = Math.max(...numbers);
    // Values over several decades, such as learning rates, are spread by their logarithm.
    const decades = low > 0 && high / low > 50, scale = (value: number) => decades ? Math.log(value) : value;
    const range = scale(high) - scale(low) || 1;
    return { name, low: compact(low), high: compact(high), place: (value) => value === "–" ? null : (scale(Number(value)) - scale(low)) / range };
  }
  const words = [...new Set(known)].sort();
  return { name, low: words[0] ?? "", high: words.at(-1) ?? "", place: (value) => value === "–" ? null : words.indexOf(value) / Math.max(1, words.length - 1) };
}

export function Parallel({ difference, metric }: { difference: DifferenceShape; metric: string }) {
  const ids = difference.runs;
  const returns = useFetched(`returns ${ids.join(" ")}`, "", async (signal) => {
    const found = await Promise.all(ids.map((id) => get<RunsPage>("/runs", { q: `id:${id}`, columns: "return,evaluation", count: 1 }, signal)));
    return found.map((page) => String(page.rows[0]?.cells[1] ?? page.rows[0]?.cells[0] ?? "–"));
  });
  if (!returns.data) return null;
  const rows = difference.rows.filter(([path]) => path !== "seed").slice(0, MAX_AXES);
  const columns = [...rows.map(([path, ...values]) => ({ path: path!, values })), { path: "return", values: returns.data }];
  const axes = columns.map(({ path, values }) => axisOf(path.replace("params.", ""), values));
  const x = (at: number) => SIDE + (at * (WIDTH - 2 * SIDE)) / Math.max(1, axes.length - 1);
  const y = (part: number) => HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM);
  return (
    <svg class="parallel" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`Parameters of ${ids.length} runs against their return, for ${metric}`}>
      {axes.map((axis, at) => <g key={axis.name}><line x1={x(at)} x2={x(at)} y1={y(0)} y2={y(1)} /><text x={x(at)} y={14} text-anchor="middle">{axis.name}</text><text x={x(at)} y={y(1) - 3} text-anchor="middle" class="tiny">{axis.high}</text><text x={x(at)} y={y(0) + 14} text-anchor="middle" class="tiny">{axis.low}</text></g>)}
      {ids.map((id, run) => {
        const points = axes.flatMap((axis, at) => { const part = axis.place(columns[at]!.values[run]!); return part === null ? [] : [`${x(at)},${y(part)}`]; });
        const good = axes.at(-1)!.place(returns.data![run]!);
        return <polyline key={id} points={points.join(" ")} style={{ strokeOpacity: 0.35 + 0.65 * (good ?? 0) }} class={good === null ? "unknown" : ""}><title>{difference.names[run]}</title></polyline>;
      })}
    </svg>
  );
}
