// One chart on a canvas: lines with bands, a cursor that all charts of the page share, brush, wheel with Ctrl.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { useStore } from "../state/store";
import { dark } from "../ui/theme";
import { compact, moment, span } from "../ui/format";
import { joined, robustRange, smooth, valueRange, type Values } from "./values";

const LIGHT = ["#0f766e", "#b45309", "#4f46e5", "#be185d", "#15803d", "#0369a1", "#7c3aed", "#a16207"];
const DARK = ["#2ec4b6", "#fbbf24", "#a5b4fc", "#f9a8d4", "#86efac", "#7dd3fc", "#c4b5fd", "#fde047"];

export interface Line {
  label: string; x: Values; y: Values; low: Values; high: Values; exact: boolean;
  colour?: number; dashed?: boolean;
}
export interface PlotOptions {
  axis: string; smoothing: number; logarithmic: boolean; robust: boolean;
  /** Seconds on the axis since the start, or dates. */
  clock?: "relative" | "wall"; start?: number;
  height: number; syncKey: string;
}

export function colourOf(at: number, isDark: boolean): string { return (isDark ? DARK : LIGHT)[at % LIGHT.length]!; }

function placeText(x: number, options: PlotOptions): string {
  if (options.axis !== "time") return `${options.axis} ${Math.round(x).toLocaleString("en")}`;
  return options.clock === "wall" ? moment(x * 1000) : span(x);
}

export function Plot({ lines, options, zoom, label, took }: {
  lines: readonly Line[]; options: PlotOptions; zoom: (range: [number, number] | null) => void; label: string; took?: (plot: uPlot | null) => void;
}) {
  const box = useRef<HTMLDivElement>(null), tip = useRef<HTMLDivElement>(null);
  const isDark = useStore(dark);
  const latest = useRef({ lines, options, zoom });
  latest.current = { lines, options, zoom };
  const plot = useRef<uPlot | null>(null);
  const shape = JSON.stringify([lines.map((one) => [one.label, one.exact, one.low.length > 0, one.colour, one.dashed]), options, isDark]);
  const data = useRef<uPlot.AlignedData>([[]]);

  useEffect(() => {
    const element = box.current!;
    data.current = dataOf(lines, options);
    const made = new uPlot(optionsOf(element, lines, options, isDark, tip.current!, latest), data.current, element);
    plot.current = made;
    took?.(made);
    const sizes = new ResizeObserver(() => {
      if (element.clientWidth && element.clientWidth !== made.width) made.setSize({ width: element.clientWidth, height: options.height });
    });
    sizes.observe(element);
    const reset = () => latest.current.zoom(null);
    const wheel = (event: WheelEvent) => {
      if (!event.ctrlKey) return; // the page scrolls
      event.preventDefault();
      const { left, width } = made.over.getBoundingClientRect(), { min, max } = made.scales["x"]!;
      if (min === undefined || max === undefined || min === null || max === null) return;
      const part = (event.clientX - left) / width, factor = event.deltaY < 0 ? 0.75 : 1 / 0.75, middle = min + part * (max - min);
      latest.current.zoom([middle - (middle - min) * factor, middle + (max - middle) * factor]);
    };
    made.over.addEventListener("dblclick", reset);
    made.over.addEventListener("wheel", wheel, { passive: false });
    return () => { sizes.disconnect(); took?.(null); made.destroy(); plot.current = null; };
  }, [shape]);

  useEffect(() => {
    const next = dataOf(lines, options);
    if (plot.current && next !== data.current) { data.current = next; plot.current.setData(next); }
  }, [lines]);

  const last = lines[0]?.y.at(-1);
  return (
    <div class="plot">
      <div ref={box} class="plot-canvas" role="img" aria-label={`${label}: ${lines.length === 1 ? `last value ${compact(last)}` : `${lines.length} curves`}`} />
      <div ref={tip} class="plot-tip" hidden />
    </div>
  );
}

function dataOf(lines: readonly Line[], options: PlotOptions): uPlot.AlignedData {
  const shift = (x: number | null) => x === null ? null : options.axis !== "time" || options.clock === undefined ? x
    : options.clock === "wall" ? x / 1e6 : (x - (options.start ?? 0)) / 1e6;
  const positive = (value: number | null) => options.logarithmic && value !== null && value <= 0 ? null : value;
  const parts = lines.map((one) => ({
    x: one.x.map(shift),
    columns: [one.low, one.high, one.y, smooth(one.y, options.smoothing)].map((values) => values.length ? values.map(positive) : one.x.map(() => null)),
  }));
  if (!parts.length) return [[]];
  const [xs, columns] = joined(parts);
  return [xs, ...columns] as uPlot.AlignedData;
}

function optionsOf(
  element: HTMLElement, lines: readonly Line[], options: PlotOptions, isDark: boolean, tip: HTMLElement,
  latest: { current: { lines: readonly Line[]; options: PlotOptions; zoom: (range: [number, number] | null) => void } },
): uPlot.Options {
  const ink = isDark ? "#a9bcc3" : "#4a5e65", grid = isDark ? "#22323a" : "#e8eef0";
  const series: uPlot.Series[] = [{}], bands: uPlot.Band[] = [];
  lines.forEach((line, at) => {
    const colour = line.dashed ? ink : colourOf(line.colour ?? at, isDark), first = series.length;
    const banded = !line.exact && line.low.length > 0;
    const hidden = { show: banded, stroke: "transparent", width: 0, points: { show: false } };
    const few = line.exact && !line.dashed && line.x.length < 80;
    series.push(hidden, hidden,
      // Measured values stay visible behind the smoothed line.
      { show: options.smoothing > 0 && !line.dashed, stroke: `${colour}55`, width: 1, points: { show: false }, spanGaps: true },
      { label: line.label, stroke: colour, width: line.dashed ? 1 : 1.6, ...(line.dashed ? { dash: [5, 4] } : {}), points: { show: few, size: 4, fill: colour, stroke: colour }, spanGaps: true });
    if (banded) bands.push({ series: [first + 1, first], fill: `${colour}26` });
  });
  const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  const seconds = options.axis === "time" && options.clock !== "wall";
  return {
    width: Math.max(100, element.clientWidth), height: options.height, series, bands,
    legend: { show: false }, padding: [8, 10, 0, 0],
    scales: {
      x: { time: options.axis === "time" && options.clock === "wall" },
      y: {
        distr: options.logarithmic ? 3 : 1,
        range: (self) => rangeOf(self, options),
      },
    },
    axes: [
      { ...axis, grid: { show: false }, size: 26, space: seconds || options.axis === "time" ? 70 : 54, ...(seconds ? { values: (_: uPlot, ticks: number[]) => ticks.map(span) } : options.axis === "time" ? {} : { values: ticksText }) },
      { ...axis, size: 54, gap: 4, values: ticksText },
    ],
    cursor: {
      sync: { key: options.syncKey, setSeries: false }, drag: { x: true, y: false, setScale: false },
      points: { show: (self, at) => { const point = document.createElement("div"); point.hidden = at % 4 !== 0; void self; return point; }, size: 6 },
    },
    hooks: {
      setSelect: [(self) => {
        const { left, width } = self.select;
        if (width < 4) return;
        latest.current.zoom([self.posToVal(left, "x"), self.posToVal(left + width, "x")]);
        self.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
      }],
      setCursor: [(self) => showTip(self, tip, latest.current.lines, latest.current.options, isDark)],
    },
  };
}

function rangeOf(self: uPlot, options: PlotOptions): [number, number] {
  let low = Infinity, high = -Infinity;
  const { min, max } = self.scales["x"]!;
  const xs = self.data[0]!, robust: (number | null)[] = [];
  self.series.forEach((one, at) => {
    if (!at || !one.show) return;
    if (options.robust && at % 4 !== 0) return;
    const values = self.data[at]!;
    for (let place = 0; place < xs.length; place++) {
      const value = values[place], x = xs[place]!;
      if (value === null || value === undefined || (min !== undefined && min !== null && x < min) || (max !== undefined && max !== null && x > max)) continue;
      if (options.robust) robust.push(value);
      else { if (value < low) low = value; if (value > high) high = value; }
    }
  });
  if (options.robust) [low, high] = robustRange(robust);
  return valueRange(low, high, options.logarithmic);
}

/** Ticks in one unit, with enough digits to tell neighbours apart. */
function ticksText(_: uPlot, ticks: (number | null)[]): string[] {
  const known = ticks.filter((tick): tick is number => tick !== null);
  const size = Math.max(...known.map(Math.abs)), step = known.length > 1 ? Math.abs(known[1]! - known[0]!) : size || 1;
  const [unit, sign] = size < 1e4 ? [1, ""] : size < 1e6 ? [1e3, "k"] : size < 1e9 ? [1e6, "M"] : [1e9, "G"];
  const digits = Math.min(20, Math.max(0, Math.ceil(-Math.log10(step / unit) - 1e-9)));
  if (size > 0 && size < 1e-4) return ticks.map((tick) => tick === null ? "" : tick ? tick.toExponential(1) : "0");
  return ticks.map((tick) => tick === null ? "" : unit > 1 && digits > 2 ? tick.toLocaleString("en") : `${+(tick / unit).toFixed(digits)}${tick ? sign : ""}`);
}

function showTip(self: uPlot, tip: HTMLElement, lines: readonly Line[], options: PlotOptions, isDark: boolean): void {
  const at = self.cursor.idx;
  if (at === null || at === undefined || (self.cursor.left ?? -1) < 0) { tip.hidden = true; return; }
  const rows: HTMLElement[] = [];
  lines.forEach((line, number) => {
    const shown = self.data[4 * number + 4]?.[at], measured = self.data[4 * number + 3]?.[at];
    if (shown === null || shown === undefined) return;
    const row = document.createElement("div"), mark = document.createElement("i");
    mark.style.background = colourOf(line.colour ?? number, isDark);
    row.append(mark, lines.length > 1 ? `${line.label} ` : "");
    const value = document.createElement("b");
    value.textContent = compact(shown);
    row.append(value);
    if (options.smoothing && typeof measured === "number") row.append(` measured ${compact(measured)}`);
    rows.push(row);
  });
  if (!rows.length) { tip.hidden = true; return; }
  const head = document.createElement("div");
  head.textContent = placeText(self.data[0]![at]!, options);
  tip.replaceChildren(head, ...rows);
  tip.hidden = false;
  const left = self.cursor.left! + self.over.offsetLeft, room = tip.parentElement!.clientWidth;
  tip.style.left = `${left + tip.offsetWidth + 24 > room ? left - tip.offsetWidth - 12 : left + 12}px`;
  tip.style.top = "12px";
}
