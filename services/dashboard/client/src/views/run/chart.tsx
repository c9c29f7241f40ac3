// The chart of one series. It asks for its curve only while it is in view.
import type uPlot from "uplot";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { CurveShape, RunShape } from "../../api/types";
import { saveCsv, savePng } from "../../chart/download";
import { askCurve, type CurveQuery } from "../../chart/curves";
import { Plot, type Line, type PlotOptions } from "../../chart/plot";
import { Button } from "../../ui/controls";

export interface ChartSettings { axis: string; smoothing: number; logarithmic: boolean; robust: boolean; zoom: [number, number] | null }

const HEIGHT = 210, TALL = 460, PAUSE_MS = 900;
const seen = new WeakMap<Element, (visible: boolean) => void>();
const nearby = new IntersectionObserver((entries) => {
  for (const entry of entries) seen.get(entry.target)?.(entry.isIntersecting);
}, { rootMargin: "300px" });

export function useSeen(ref: { current: Element | null }): boolean {
  const [visible, set] = useState(false);
  useEffect(() => {
    const element = ref.current!;
    seen.set(element, set);
    nearby.observe(element);
    return () => nearby.unobserve(element);
  }, []);
  return visible;
}

export function RunChart({ run, name, version, settings, zoom }: {
  run: RunShape; name: string; version: number; settings: ChartSettings; zoom: (range: [number, number] | null) => void;
}) {
  const box = useRef<HTMLElement>(null), plot = useRef<uPlot | null>(null);
  const visible = useSeen(box);
  const [wide, setWide] = useState(false);
  const axis = settings.axis === "relative" || settings.axis === "wall" ? "time" : settings.axis;
  const range = useMemo(() => toAxis(settings, run), [settings.zoom, settings.axis, run.started_at]);
  const { curve, error } = useCurve(run.id, name, version, visible, {
    axis, points: wide ? 2000 : 600, first: range?.[0], last: range?.[1],
  });
  const lines = useMemo<Line[]>(() => curve ? [{ label: name, x: curve.x, y: curve.y, low: curve.low, high: curve.high, exact: curve.exact }] : [], [curve]);
  const options = useMemo<PlotOptions>(() => ({
    axis, smoothing: settings.smoothing, logarithmic: settings.logarithmic, robust: settings.robust, height: wide ? TALL : HEIGHT, syncKey: `run ${axis}`,
    ...(axis === "time" ? { clock: settings.axis === "wall" ? "wall" as const : "relative" as const, start: run.started_at * 1000 } : {}),
  }), [axis, settings.axis, settings.smoothing, settings.logarithmic, settings.robust, wide, run.started_at]);
  const short = name.slice(name.lastIndexOf("/") + 1);
  return (
    <figure ref={box} class={`chart ${wide ? "chart-wide" : ""}`} data-metric={name} data-points={curve?.points ?? 0} data-last={curve?.x.at(-1) ?? 0}>
      <figcaption><span title={name}>{short}</span>
        <Button icon="wide" label={wide ? `Make ${name} small` : `Make ${name} large`} act={() => setWide(!wide)} kind="quiet" pressed={wide} />
        <Button icon="download" label={`Save ${name} as PNG`} act={() => { if (plot.current) savePng(plot.current, `${run.name} ${name}`); }} kind="quiet" />
        <button type="button" class="button quiet" onClick={() => saveCsv(lines, axis, `${run.name} ${name}`)} aria-label={`Save ${name} as CSV`}>CSV</button>
      </figcaption>
      {error ? <p class="bad" role="alert">{error}</p> : curve && !curve.points ? <p class="faint">No points in this range.</p>
        : visible && curve ? <Plot lines={lines} options={options} zoom={zoom} label={`Chart of ${name}`} took={(made) => { plot.current = made; }} /> : <div class={`plot-empty ${wide ? "plot-tall" : ""}`} />}
    </figure>
  );
}

/** The zoomed range on the service's axis: microseconds for time. */
function toAxis(settings: ChartSettings, run: RunShape): [number, number] | null {
  if (!settings.zoom) return null;
  const [first, last] = settings.zoom;
  if (settings.axis === "wall") return [first * 1e6, last * 1e6];
  if (settings.axis === "relative") return [first * 1e6 + run.started_at * 1000, last * 1e6 + run.started_at * 1000];
  return [first, last];
}

/** The newest state of a curve, asked for again at most once a second while it changes and is in view. */
function useCurve(run: string, name: string, version: number, visible: boolean, query: CurveQuery): { curve: CurveShape | undefined; error: string } {
  const key = JSON.stringify([run, name, query]);
  const [state, set] = useState<{ key: string; curve: CurveShape | undefined; error: string }>({ key: "", curve: undefined, error: "" });
  const held = useRef({ key: "", version: -1, number: 0, at: 0, busy: false });
  const [turn, next] = useState(0);
  useEffect(() => {
    const own = held.current;
    if (own.key !== key) Object.assign(own, { key, version: -1, number: 0, at: 0, busy: false });
    if (!visible || own.busy || own.version === version) return undefined;
    const wait = Math.max(0, own.at + PAUSE_MS - Date.now());
    const timer = setTimeout(() => {
      own.busy = true;
      askCurve(run, name, query, own.number).then((curve) => {
        if (own.key !== key) return;
        Object.assign(own, { busy: false, version, at: Date.now(), number: curve?.number ?? own.number });
        if (curve) set({ key, curve, error: "" });
        next((n) => n + 1);
      }, (error: Error) => {
        if (own.key !== key) return;
        set((old) => ({ ...old, key, error: error.message }));
        setTimeout(() => { own.busy = false; next((n) => n + 1); }, 3000);
      });
    }, wait);
    return () => clearTimeout(timer);
  }, [key, version, visible, turn]);
  // While another range is fetched, the one before stays on the screen.
  return { curve: state.curve, error: state.key === key ? state.error : "" };
}
