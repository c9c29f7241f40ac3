// Charts of a run: in sections, filtered by an expression, with one cursor.
import { useMemo, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { RunShape, SeriesShape } from "../../api/types";
import { useFetched } from "../../state/query";
import { amend, place } from "../../state/router";
import { kept, useStore } from "../../state/store";
import { Button, Check, Note, Segments } from "../../ui/controls";
import { count } from "../../ui/format";
import { RunChart, type ChartSettings } from "./chart";

const FIRST = ["episodic_return", "episode/return", "episode_reward", "ep_rew_mean", "eval", "episodic_length", "episode/length", "SPS", "time/fps"];
const AXES = [["step", "Step"], ["relative", "Time"], ["wall", "Date"], ["episode", "Episode"]] as const;
const settings = kept("charts", { smoothing: 0.6, logarithmic: false, robust: false });
const closed = kept<string[]>("charts.closed", []);

export function orderMetrics(names: readonly string[]): string[] {
  const rank = (name: string) => { const at = FIRST.findIndex((part) => name.includes(part)); return at < 0 ? FIRST.length : at; };
  return [...names].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b, "en", { numeric: true }));
}

/** Sections by what is before the last slash, in the order of their first chart. */
export function sectionsOf(names: readonly string[]): [string, string[]][] {
  const found = new Map<string, string[]>();
  for (const name of orderMetrics(names)) {
    const cut = name.lastIndexOf("/"), section = cut > 0 ? name.slice(0, cut) : "";
    found.set(section, [...found.get(section) ?? [], name]);
  }
  return [...found];
}

/** Series that hold the same points as another, by name: a trainer and the worker may both report returns. */
export function twinsOf(series: readonly SeriesShape[]): Map<string, string> {
  const first = new Map<string, string>(), found = new Map<string, string>();
  for (const name of orderMetrics(series.map((one) => one.name))) {
    const one = series.find((each) => each.name === name)!;
    if (!/return|length|reward/.test(name) || one.points < 2) continue;
    const key = JSON.stringify([one.points, one.minimum, one.maximum, one.last, /length/.test(name)]);
    const known = first.get(key);
    if (known) found.set(name, known); else first.set(key, name);
  }
  return found;
}

export function Charts({ run, version }: { run: RunShape; version: number }) {
  const query = useStore(place).query;
  const axis = query.get("axis") ?? "step", wanted = query.get("metrics") ?? "";
  const { smoothing, logarithmic, robust } = useStore(settings);
  const shut = useStore(closed);
  const [zoom, setZoom] = useState<[number, number] | null>(null);
  // Names change seldom: they are asked for every few changes of a run that trains.
  const series = useFetched(`series ${run.id}`, run.ended ? "ended" : Math.floor(version && Date.now() / 3000), (signal) => get<SeriesShape[]>(`/runs/${run.id}/series`, {}, signal));
  const twins = useMemo(() => twinsOf(series.data ?? []), [series.data]);
  const names = useMemo(() => (series.data ?? []).map((one) => one.name).filter((name) => !twins.has(name)), [series.data, twins]);
  const [expression, problem] = useMemo(() => {
    try { return [new RegExp(wanted, "i"), ""] as const; } catch (error) { return [/^/, (error as Error).message] as const; }
  }, [wanted]);
  const sections = useMemo(() => sectionsOf(names.filter((name) => expression.test(name))), [names, expression]);
  const shared: ChartSettings = useMemo(() => ({ axis, smoothing, logarithmic, robust, zoom }), [axis, smoothing, logarithmic, robust, zoom]);
  const shown = sections.reduce((sum, [, members]) => sum + members.length, 0);
  return <>
    <div class="bar">
      <Segments label="Axis" value={axis} options={AXES} choose={(value) => { setZoom(null); amend({ axis: value === "step" ? "" : value }); }} />
      <label class="slider">Smoothing <input type="range" min="0" max="0.99" step="0.01" value={smoothing} onInput={(event) => settings.set({ ...settings.get(), smoothing: Number(event.currentTarget.value) })} /><output>{smoothing.toFixed(2)}</output></label>
      <Check label="Log scale" checked={logarithmic} change={(on) => settings.set({ ...settings.get(), logarithmic: on })} />
      <Check label="Ignore outliers" checked={robust} change={(on) => settings.set({ ...settings.get(), robust: on })} />
      <input type="search" class="filter filter-short" aria-label="Metrics, a regular expression" placeholder="Metrics (regular expression)" value={wanted} onInput={(event) => amend({ metrics: event.currentTarget.value })} />
      <span class="count" role="status">{problem ? <span class="bad">{problem}</span> : shown === names.length ? count(shown, "chart") : `${shown} of ${count(names.length, "chart")}`}</span>
      {twins.size > 0 && <span class="hint" title={[...twins].map(([name, as]) => `${name} is the same as ${as}`).join("\n")}>{count(twins.size, "duplicate")} left out</span>}
      {zoom && <Button label="Whole range" text="Whole range" act={() => setZoom(null)} />}
      <span class="hint">drag to zoom, Ctrl+wheel, double-click to reset</span>
    </div>
    {series.error && <Note title="The metrics cannot be loaded" bad>{series.error}</Note>}
    {series.data && !names.length && <Note title="No metrics yet">Charts appear with the first episode or the first metric of the trainer.</Note>}
    {sections.map(([section, members]) => {
      const open = !shut.includes(section);
      const toggle = () => closed.set(open ? [...shut, section] : shut.filter((one) => one !== section));
      return (
        <section key={section} class="charts">
          {(sections.length > 1 || section) && <h2><button type="button" class="section" aria-expanded={open} onClick={toggle}><span aria-hidden="true">{open ? "▾" : "▸"}</span> {section || "metrics"} <span class="faint">{members.length}</span></button></h2>}
          {open && <div class="wall">{members.map((name) => <RunChart key={name} run={run} name={name} version={version} settings={shared} zoom={setZoom} />)}</div>}
        </section>
      );
    })}
  </>;
}
