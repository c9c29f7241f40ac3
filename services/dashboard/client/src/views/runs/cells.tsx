// One cell of the list, by its column.
import type { ColumnShape } from "../../api/types";
import { link } from "../../state/router";
import { State } from "../../ui/controls";
import { ago, compact, moment, span, whole } from "../../ui/format";

type Value = string | number | boolean | null | undefined;

export const WIDTHS: Record<string, number> = {
  name: 300, state: 108, env: 150, algo: 104, seed: 64, return: 88, done: 104, spark: 116, duration: 92, submitted: 124, started: 112,
  ended: 104, reason: 260, id: 230, attempt: 76, priority: 78, runner: 92, mode: 84, project: 120, owner: 100, worker: 150,
};

export function widthOf(name: string): number { return WIDTHS[name] ?? 112; }

export function isNumeric(column: ColumnShape | undefined): boolean { return column !== undefined && column.kind !== "text" && column.name !== "done"; }

export function Cell({ column, name, value, id, now, spark }: {
  column: ColumnShape | undefined; name: string; value: Value; id: string; now: number; spark: readonly number[] | undefined;
}) {
  if (name === "spark") return <Spark values={spark} />;
  if (name === "name") return <a href={link(["run", id])} tabIndex={-1}>{String(value)}</a>;
  if (name === "state") return <State name={String(value)} />;
  if (value === null || value === undefined) return <span class="faint">–</span>;
  if (name === "done") return <Done part={value as number} />;
  if (column?.kind === "time") return <span title={moment(value as number)}>{ago(value as number, now)}</span>;
  if (column?.kind === "duration") return <>{span(value as number)}</>;
  if (typeof value === "number") return <span title={String(value)}>{Number.isInteger(value) && Math.abs(value) < 1e4 ? whole(value) : compact(value)}</span>;
  return <span title={String(value)}>{String(value)}</span>;
}

function Done({ part }: { part: number }) {
  const text = `${Math.floor(part * 100)} %`;
  return <span class="done"><span class="done-track"><span class="done-part" style={{ width: text.replace(" ", "") }} /></span>{text}</span>;
}

function Spark({ values }: { values: readonly number[] | undefined }) {
  if (!values || values.length < 2) return <span class="faint">–</span>;
  const low = Math.min(...values), range = Math.max(...values) - low || 1, last = values.length - 1;
  const points = values.map((value, at) => `${((at / last) * 98 + 1).toFixed(1)},${(21 - ((value - low) / range) * 18).toFixed(1)}`).join(" ");
  return <svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" role="img" aria-label={`return from ${compact(values[0])} to ${compact(values[last])}`}><polyline points={points} /></svg>;
}
