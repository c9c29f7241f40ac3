// Runs compared: curves of groups of seeds with their interval, the figures, what differs, and scatter of the sweep.
import type uPlot from "uplot";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { ComparisonShape, DifferenceShape, RunsPage, SeriesShape } from "../../api/types";
import { saveCsv, savePng } from "../../chart/download";
import { Plot, type Line, type PlotOptions } from "../../chart/plot";
import { changes, watch } from "../../state/live";
import { useFetched } from "../../state/query";
import { amend, link, place } from "../../state/router";
import { kept, useStore } from "../../state/store";
import { Button, Check, Choice, Note, Segments } from "../../ui/controls";
import { compact, count } from "../../ui/format";
import { useTitle } from "../../ui/title";
import { orderMetrics } from "../run/charts";
import { LockStep } from "./lockstep";
import { Parallel } from "./parallel";

const AXES = [["step", "Step"], ["time", "Time"], ["episode", "Episode"]] as const;
const STATISTICS = [["iqm", "IQM"], ["mean", "Mean"], ["median", "Median"]] as const;
const REACHED: Record<string, string> = { step: "Steps to threshold", time: "Seconds to threshold", episode: "Episodes to threshold" };
const MAX_LISTED = 200;
const view = kept("compare", { smoothing: 0, logarithmic: false });

export function CompareView() {
  const query = useStore(place).query;
  const runs = query.getAll("run"), axis = query.get("axis") ?? "step", stat = query.get("stat") ?? "iqm", each = query.get("each") === "true";
  const change = useStore(changes);
  useTitle("Compare");
  useEffect(() => { watch(runs); return () => watch([]); }, [runs.join(" ")]);
  const version = Math.max(0, ...runs.map((id) => change.runs[id]?.[0] ?? 0));
  const series = useFetched(runs.length ? `series ${runs.join(" ")}` : "", "", async () => {
    const found = await Promise.all(runs.slice(0, 16).map((id) => get<SeriesShape[]>(`/runs/${encodeURIComponent(id)}/series`)));
    return orderMetrics([...new Set(found.flat().map((one) => one.name))]);
  });
  const metric = query.get("metric") ?? series.data?.[0] ?? "";
  const found = useFetched(runs.length && metric ? JSON.stringify([runs, metric, axis, stat, each]) : "", version,
    (signal) => get<ComparisonShape>("/compare", { run: runs, metric, axis, stat, each }, signal));
  return (
    <div class="compare">
      <h1>Compare</h1>
      <RunPicker runs={runs} />
      {!runs.length && <Note title="No runs selected">Add runs above, or select them in <a href={link([])}>the list of runs</a> and press Compare.</Note>}
      {runs.length > 0 && <>
        <div class="bar">
          <Choice label="Metric" value={metric} options={[...new Set([metric, ...series.data ?? []])].filter(Boolean).map((name) => [name, name] as const)} choose={(value) => amend({ metric: value })} />
          <Segments label="Axis" value={axis} options={AXES} choose={(value) => amend({ axis: value })} />
          <Segments label="Statistic" value={stat} options={STATISTICS} choose={(value) => amend({ stat: value })} />
          <Check label="Each run separately" checked={each} change={(on) => amend({ each: on ? "true" : "" })} />
        </div>
        {(series.error || found.error) && <Note title="These runs cannot be compared" bad>{series.error || found.error}</Note>}
        {found.data && <Curves found={found.data} metric={metric} />}
        {found.data && <Figures found={found.data} />}
        <Differences runs={runs} metric={metric} />
        <LockStep runs={runs} />
      </>}
    </div>
  );
}

function Curves({ found, metric }: { found: ComparisonShape; metric: string }) {
  const { smoothing, logarithmic } = useStore(view);
  const plot = useRef<uPlot | null>(null);
  const [hidden, setHidden] = useState<readonly string[]>([]);
  const every = useMemo<Line[]>(() => found.curves.map((one, at) => ({ label: one.name, x: one.x, y: one.y, low: one.low, high: one.high, exact: one.exact, colour: at, dashed: one.exact && one.points === 0 })), [found]);
  const lines = useMemo(() => every.filter((one) => !hidden.includes(one.label)), [every, hidden]);
  const options = useMemo<PlotOptions>(() => ({ axis: found.axis, smoothing, logarithmic, robust: false, height: 380, syncKey: "compare" }), [found.axis, smoothing, logarithmic]);
  return (
    <figure class="chart chart-wide" data-curves={lines.length} data-last={lines[0]?.x.at(-1) ?? 0}>
      <figcaption><span>{metric}</span>
        <Check label="Log scale" checked={logarithmic} change={(on) => view.set({ ...view.get(), logarithmic: on })} />
        <label class="slider">Smoothing <input type="range" min="0" max="0.99" step="0.01" value={smoothing} onInput={(event) => view.set({ ...view.get(), smoothing: Number(event.currentTarget.value) })} /></label>
        <Button icon="download" label="Save as PNG" act={() => { if (plot.current) savePng(plot.current, metric); }} kind="quiet" />
        <button type="button" class="button quiet" onClick={() => saveCsv(lines, found.axis, metric)}>CSV</button>
      </figcaption>
      <Plot lines={lines} options={options} zoom={() => undefined} label={`Chart of ${metric}`} took={(made) => { plot.current = made; }} />
      <ul class="legend" aria-label="Curves; press one to hide it">{every.map((one, at) => <li key={one.label}><button type="button" aria-pressed={!hidden.includes(one.label)}
        onClick={() => setHidden(hidden.includes(one.label) ? hidden.filter((label) => label !== one.label) : [...hidden, one.label])}><i class={`key key-${at % 8} ${one.dashed ? "key-dashed" : ""}`} />{one.label}</button></li>)}</ul>
    </figure>
  );
}

function Figures({ found }: { found: ComparisonShape }) {
  return <>
    {found.advice && <p class="advice">{found.advice[0]!.toUpperCase() + found.advice.slice(1)}</p>}
    <div class="scroll" tabIndex={0} role="region" aria-label="Figures"><table class="plain figures-table">
      <thead><tr><th scope="col">Group</th><th scope="col">Runs</th><th scope="col">Final (IQM, 95 %)</th><th scope="col">Final mean ± std</th><th scope="col">Area under curve</th><th scope="col">{REACHED[found.axis]}</th></tr></thead>
      <tbody>{found.groups.map((one) => (
        <tr key={one.label}><th scope="row">{one.label}</th><td>{one.runs}</td>
          <td>{compact(one.final)}{one.low !== null ? ` [${compact(one.low)}, ${compact(one.high)}]` : ""}</td>
          <td>{compact(one.mean)}{one.std !== null ? ` ± ${compact(one.std)}` : ""}</td><td>{compact(one.area)}</td>
          <td>{one.reached === null ? "never" : compact(one.reached)} ({one.reached_count}/{one.runs} reach {compact(found.threshold)})</td></tr>
      ))}</tbody>
    </table></div>
  </>;
}

function Differences({ runs, metric }: { runs: readonly string[]; metric: string }) {
  const { data, error } = useFetched(`specs ${runs.join(" ")}`, "", (signal) => get<DifferenceShape>("/compare/specs", { run: [...runs] }, signal));
  if (error) return <Note title="The parameters cannot be compared" bad>{error}</Note>;
  if (!data) return null;
  return (
    <section>
      <h2>What differs</h2>
      {!data.rows.length && <p class="faint">Nothing: the specs of these runs are equal.</p>}
      {data.runs.length > 2 && data.rows.length > 0 && <Parallel difference={data} metric={metric} />}
      {data.rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Parameters that differ"><table class="plain">
          <thead><tr><th scope="col">Path</th>{data.names.map((name, at) => <th scope="col" key={data.runs[at]}><a href={link(["run", data.runs[at]!])}>{name}</a></th>)}</tr></thead>
          <tbody>{data.rows.map(([path, ...values]) => <tr key={path}><th scope="row">{path}</th>{values.map((value, at) => <td key={at}><code>{value}</code></td>)}</tr>)}</tbody>
        </table></div>
      )}
    </section>
  );
}

/** The chosen runs as chips, and a field that finds more by the same filter as the list. */
function RunPicker({ runs }: { runs: readonly string[] }) {
  const query = useStore(place).query.get("find") ?? "";
  const names = useFetched(`names ${runs.join(" ")}`, "", (signal) => runs.length ? get<DifferenceShape>("/compare/specs", { run: [...runs] }, signal) : Promise.resolve(null));
  const found = useFetched(query ? `find ${query}` : "", "", (signal) => get<RunsPage>("/runs", { q: query, columns: "name,state,return", count: MAX_LISTED }, signal));
  const set = (next: readonly string[]) => amend({ run: [...next], metric: "" });
  const label = (id: string) => { const at = names.data?.runs.indexOf(id) ?? -1; return names.data?.names[at] ?? id.slice(0, 12); };
  const more = (found.data?.rows ?? []).filter((row) => !runs.includes(row.id));
  return (
    <section class="picker" aria-label="Runs">
      <ul class="chips">{runs.map((id) => <li key={id}><a href={link(["run", id])}>{label(id)}</a><Button icon="close" label={`Remove ${label(id)}`} act={() => set(runs.filter((one) => one !== id))} kind="quiet" /></li>)}</ul>
      <input type="search" class="filter" aria-label="Add runs" placeholder="Add runs: words, env:CartPole-v1 seed<4" value={query} onInput={(event) => amend({ find: event.currentTarget.value })} />
      {found.error && <p class="bad" role="alert">{found.error}</p>}
      {query && found.data && <div class="picked">
        <Button label="Add all" text={`Add ${count(Math.min(more.length, 64 - runs.length), "run")}`} act={() => { set([...runs, ...more.map((row) => row.id)].slice(0, 64)); amend({ find: "" }); }} disabled={!more.length} />
        <ul>{more.slice(0, 12).map((row) => <li key={row.id}><button type="button" class="button quiet" onClick={() => set([...runs, row.id])}>+ {String(row.cells[0])} <span class="faint">{String(row.cells[1])}{row.cells[2] === null ? "" : `, return ${compact(row.cells[2] as number)}`}</span></button></li>)}</ul>
      </div>}
    </section>
  );
}
