// One chart of one or more series. It fetches its own curves: an overview whose band keeps every extreme,
// and exact points once the range is narrow enough. The server only notifies it of new points.
import { echarts } from "nicegui-echart";

const PALETTE = ["#0f766e", "#b45309", "#4f46e5", "#be185d", "#15803d", "#0369a1", "#7c3aed", "#a16207"];
const DARK = ["#2ec4b6", "#fbbf24", "#a5b4fc", "#f9a8d4", "#86efac", "#7dd3fc", "#c4b5fd", "#fde047"];

function smooth(values, weight) {
  if (!weight) return values;
  let mean = 0, total = 0, low = Infinity, high = -Infinity;
  return values.map((value) => {
    if (value === null) return null;
    mean = mean * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    [low, high] = [Math.min(low, value), Math.max(high, value)];
    // A mean lies among its values; rounding must not move that of a constant.
    return Math.min(high, Math.max(low, mean / total));
  });
}
const compact = (value) => {
  const size = Math.abs(value);
  if (size >= 1e9) return +(value / 1e9).toPrecision(3) + "G";
  if (size >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
  return String(+value.toPrecision(4));
};
// Ticks in one unit, with enough digits to distinguish neighbours: 15,003 to 15,009 is not six times 15k.
const ticks = (first, last) => {
  const size = Math.max(Math.abs(first), Math.abs(last)), step = (last - first) / 10 || size || 1;
  const [unit, sign] = size < 1e4 ? [1, ""] : size < 1e6 ? [1e3, "k"] : size < 1e9 ? [1e6, "M"] : [1e9, "G"];
  const digits = Math.min(20, Math.max(0, Math.ceil(-Math.log10(step / unit))));
  if (unit > 1 && digits > 2) return (value) => value.toLocaleString("en");
  return (value) => (Math.abs(value) < unit / 10 ? compact(value) : +(value / unit).toFixed(digits) + sign);
};
const reach = (values) => values.reduce(([low, high], value) => (value === null ? [low, high] : [Math.min(low, value), Math.max(high, value)]), [Infinity, -Infinity]);
// Ends of the value axis when the values are equal apart from rounding: such a line lies in the middle, flat.
const level = ([low, high]) => {
  const size = Math.max(Math.abs(low), Math.abs(high));
  if (!(high - low <= 1e-9 * size)) return {};
  const room = size / 10 || 1;
  return { min: low - room, max: high + room };
};
const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

// Charts with the same query of one run share a request, which names the state of each curve that they have.
const MAX_NAMES = 24;
const pending = new Map();
function request(source, query, have) {
  const key = `${encodeURIComponent(source.run)}/curves?${new URLSearchParams(query)}`;
  return new Promise((resolve, reject) => {
    if (!pending.has(key)) {
      pending.set(key, []);
      setTimeout(() => send(key));
    }
    pending.get(key).push({ name: source.name, have, resolve, reject });
  });
}
function send(key) {
  const all = pending.get(key);
  pending.delete(key);
  for (let at = 0; at < all.length; at += MAX_NAMES) {
    const some = all.slice(at, at + MAX_NAMES);
    const names = some.map((one) => `&name=${encodeURIComponent(one.name)}&have=${one.have}`).join("");
    fetchJson(`/api/runs/${key}${names}`).then(
      (curves) => some.forEach((one) => one.resolve(curves.find((curve) => curve.name === one.name))),
      (error) => some.forEach((one) => one.reject(error)));
  }
}
async function fetchJson(address) {
  const answer = await fetch(address);
  if (answer.redirected && new URL(answer.url).pathname === "/login") { location.reload(); return []; }
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || `error ${answer.status}`);
  return body;
}

// Only visible charts fetch curves; the others catch up when they become visible.
const charts = new Set();
const nearby = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    const chart = [...charts].find((one) => one.$el === entry.target);
    if (chart) { chart.seen = entry.isIntersecting; chart.catchUp(); }
  }
}, { rootMargin: "200px" });
document.addEventListener("visibilitychange", () => charts.forEach((chart) => chart.catchUp()));
window.rs.grow = (run) => charts.forEach((chart) => {
  if (chart.sources.some((source) => source.run === run)) chart.grow();
});

export default {
  template: '<div class="rs-curve"><div class="rs-curve-title"></div><div class="rs-curve-plot"></div><div class="rs-curve-note" role="status"></div></div>',
  props: { title: String, sources: Array, axis: String, smoothing: Number, logarithmic: Boolean },
  mounted() {
    [this.head, this.plot, this.note] = this.$el.children;
    this.head.textContent = this.title;
    this.plot.setAttribute("role", "img");
    this.plot.setAttribute("aria-label", `Chart of ${this.title}`);
    this.chart = echarts.init(this.plot);
    this.range = null;
    this.chart.on("datazoom", () => this.zoomed());
    this.plot.addEventListener("dblclick", () => this.reset());
    this.observer = new ResizeObserver(() => this.chart.resize());
    this.observer.observe(this.plot);
    this.theme = new MutationObserver(() => this.draw());
    this.theme.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    this.behind = true;
    charts.add(this);
    nearby.observe(this.$el);
  },
  beforeUnmount() {
    charts.delete(this);
    nearby.unobserve(this.$el);
    this.observer?.disconnect();
    this.theme?.disconnect();
    this.chart?.dispose();
    this.gone = true;
  },
  watch: {
    axis() { this.range = null; this.behind = true; this.catchUp(); },
    smoothing() { this.draw(); },
    logarithmic() { this.draw(); },
  },
  methods: {
    // Called by the server when the run has new points.
    grow() { if (!this.range) { this.behind = true; this.catchUp(); } },
    catchUp() { if (this.behind && this.seen && !document.hidden) this.load(); },
    reset() { this.range = null; this.chart.dispatchAction({ type: "dataZoom", start: 0, end: 100 }); this.load(); },
    async load() {
      if (this.loading) { this.again = true; return; }
      this.loading = true;
      this.behind = false;
      let same = false;
      try {
        // In steps, so that windows of similar size send the same query.
        const width = Math.min(2000, Math.max(200, 200 * Math.ceil(this.plot.clientWidth / 200)));
        const found = (await Promise.all(this.sources.map((source, place) => this.fetchOne(source, width, place)))).flat();
        same = found.length === this.data?.length && found.every((one, place) => one === this.data[place]);
        this.data = found;
        this.note.textContent = "";
      } catch (error) {
        this.note.textContent = error.message;
      } finally {
        this.loading = false;
      }
      if (this.gone) return;
      if (!same) this.draw();
      if (this.again) { this.again = false; this.load(); }
    },
    async fetchOne(source, width, place) {
      if (source.url) return (await fetchJson(source.url)).map((one) => ({ ...one, label: one.name, whole: true }));
      const query = { axis: this.axis, points: width };
      if (this.range) [query.first, query.last] = this.range;
      // The number of a curve's state is valid for one range and axis only.
      const key = JSON.stringify(query), held = this.queryKey === key ? this.data?.[place] : undefined;
      const found = await request(source, query, held?.number || 0);
      this.queryKey = key;
      if (!found && held) return held;
      return { label: source.label, ...(found || { x: [], y: [], low: [], high: [], exact: true, points: 0 }) };
    },
    zoomed() {
      if (this.data?.some((one) => one.whole)) return; // all points are loaded
      const zoom = this.chart.getOption().dataZoom?.[0];
      if (!zoom || !this.extent) return;
      const first = zoom.startValue, last = zoom.endValue;
      if (first === undefined || last === undefined) return;
      if (first <= this.extent[0] && last >= this.extent[1]) { if (this.range) { this.range = null; this.later(); } return; }
      this.range = [first, last];
      this.later();
    },
    later() { clearTimeout(this.timer); this.timer = setTimeout(() => this.load(), 120); },
    draw() {
      if (!this.data || this.gone) return;
      const dark = document.body.classList.contains("body--dark");
      const colours = dark ? DARK : PALETTE;
      const ink = dark ? "#93a8af" : "#5a6f76", line = dark ? "#273840" : "#e3eaec";
      const series = [], positive = (value) => (this.logarithmic && value <= 0 ? null : value);
      if (!this.range) {
        const xs = this.data.flatMap((one) => (one.x.length ? [one.x[0], one.x[one.x.length - 1]] : []));
        this.extent = xs.length ? [Math.min(...xs), Math.max(...xs)] : null;
      }
      const dates = this.dates();
      this.data.forEach((one, index) => {
        const colour = one.reference ? ink : colours[index % colours.length];
        const x = dates ? one.x.map((value) => value / 1000) : one.x;
        const line = smooth(one.y, this.smoothing);
        if (!one.exact && one.low.length && !this.logarithmic) {
          const common = { type: "line", symbol: "none", stack: "band" + index, stackStrategy: "all", silent: true, lineStyle: { opacity: 0 }, animation: false };
          const known = (i) => one.low[i] !== null && one.high[i] !== null;
          series.push({ ...common, data: x.map((v, i) => [v, known(i) ? one.low[i] : null]), areaStyle: { opacity: 0 } });
          series.push({ ...common, data: x.map((v, i) => [v, known(i) ? one.high[i] - one.low[i] : null]), areaStyle: { color: colour, opacity: 0.16 } });
        } else if (this.smoothing) {
          series.push({ type: "line", symbol: "none", silent: true, animation: false, data: x.map((v, i) => [v, positive(one.y[i])]), lineStyle: { color: colour, width: 1, opacity: 0.25 } });
        }
        series.push({
          name: one.label, type: "line", symbol: one.exact && !one.reference && x.length < 100 ? "circle" : "none", symbolSize: 4, animation: false,
          data: x.map((v, i) => [v, positive(line[i])]), lineStyle: { color: colour, width: one.reference ? 1 : 1.6, type: one.reference ? "dashed" : "solid" }, itemStyle: { color: colour },
        });
      });
      const named = this.data.length > 1;
      const across = dates ? undefined : ticks(...(this.range || this.extent || [0, 0]));
      const shown = reach(this.data.flatMap((one) => (this.logarithmic ? one.y : [...one.y, ...one.low, ...one.high])));
      const up = this.logarithmic || shown[0] > shown[1] ? compact : ticks(...shown);
      this.chart.setOption({
        animation: false, grid: { left: 8, right: 14, top: named ? 30 : 10, bottom: 2, containLabel: true },
        legend: named ? { top: 0, textStyle: { color: ink }, data: this.data.map((one) => one.label) } : { show: false },
        tooltip: { trigger: "axis", confine: true, order: "valueDesc", formatter: (items) => this.tip(items) },
        xAxis: { type: dates ? "time" : "value", min: "dataMin", max: "dataMax", axisLabel: { color: ink, hideOverlap: true, formatter: across }, splitLine: { show: false }, axisLine: { lineStyle: { color: line } } },
        yAxis: { type: this.logarithmic ? "log" : "value", scale: true, min: null, max: null, ...(this.logarithmic ? {} : level(shown)), axisLabel: { color: ink, formatter: up }, splitLine: { lineStyle: { color: line } } },
        dataZoom: [{ type: "inside", filterMode: "none", throttle: 80 }],
        series,
      }, { replaceMerge: ["series"] });
      this.$el.dataset.values = this.chart.getModel().getComponent("yAxis").axis.scale.getExtent().join(" ");
      this.$el.dataset.last = Math.max(0, ...this.data.map((one) => one.x[one.x.length - 1] ?? 0));
      this.plot.setAttribute("aria-label", `Chart of ${this.title}${this.axesText(across, up, shown)}`);
      const points = this.data.reduce((sum, one) => sum + one.points, 0);
      this.$el.dataset.points = points;
      this.$el.dataset.exact = this.data.every((one) => one.exact);
      if (!points) this.note.textContent = "No points yet.";
    },
    // Points in time are dates on the chart of one run; groups of runs count seconds from the start of each.
    dates() { return this.axis === "time" && !this.data.some((one) => one.whole); },
    place(x) { return this.axis === "time" ? `${compact(x)} s since the start` : `${this.axis} ${Math.round(x).toLocaleString("en")}`; },
    // Text of the axes for screen readers.
    axesText(across, up, shown) {
      const ends = this.range || this.extent;
      if (!ends || shown[0] > shown[1]) return "";
      const format = across || ((value) => new Date(value / 1000).toLocaleString());
      return `: ${this.axis} ${format(ends[0])} to ${format(ends[1])}, values ${up(shown[0])} to ${up(shown[1])}`;
    },
    tip(items) {
      const shown = items.filter((item) => item.seriesName && !item.seriesName.startsWith("series"));
      if (!shown.length) return "";
      const x = shown[0].value[0];
      const head = this.dates() ? new Date(x).toLocaleString() : this.place(x);
      // The tooltip of a smoothed line also shows the measured value.
      const measured = (item) => this.data.find((one) => one.label === item.seriesName)?.y[item.dataIndex];
      const raw = (item) => (this.smoothing && typeof measured(item) === "number" ? ` <span class="rs-quiet">measured ${compact(measured(item))}</span>` : "");
      return [escaped(head), ...shown.map((item) => `${item.marker} ${escaped(item.seriesName)} <b>${compact(item.value[1])}</b>${raw(item)}`)].join("<br>");
    },
  },
};
