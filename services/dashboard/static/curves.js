// One chart of one or more series. It fetches its own figures: an overview whose band keeps every extreme,
// and exact points once the range is narrow enough. The server only says when there is something new.
import { echarts } from "nicegui-echart";

const PALETTE = ["#0f766e", "#b45309", "#4f46e5", "#be185d", "#15803d", "#0369a1", "#7c3aed", "#a16207"];
const DARK = ["#2ec4b6", "#fbbf24", "#a5b4fc", "#f9a8d4", "#86efac", "#7dd3fc", "#c4b5fd", "#fde047"];

function smooth(values, weight) {
  if (!weight) return values;
  let mean = 0, total = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = mean * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return mean / total;
  });
}
const compact = (value) => {
  const size = Math.abs(value);
  if (size >= 1e9) return +(value / 1e9).toPrecision(3) + "G";
  if (size >= 1e6) return +(value / 1e6).toPrecision(3) + "M";
  if (size >= 1e4) return +(value / 1e3).toPrecision(3) + "k";
  return String(+value.toPrecision(4));
};
// Ticks in one unit, with as many digits as tell neighbours apart: from 15,003 to 15,009 not six times 15k.
const ticks = (first, last) => {
  const size = Math.max(Math.abs(first), Math.abs(last)), step = (last - first) / 10 || size || 1;
  const [unit, sign] = size < 1e4 ? [1, ""] : size < 1e6 ? [1e3, "k"] : size < 1e9 ? [1e6, "M"] : [1e9, "G"];
  const digits = Math.min(20, Math.max(0, Math.ceil(-Math.log10(step / unit))));
  if (unit > 1 && digits > 2) return (value) => value.toLocaleString("en");
  return (value) => (Math.abs(value) < unit / 10 ? compact(value) : +(value / unit).toFixed(digits) + sign);
};
const reach = (values) => values.reduce(([low, high], value) => (value === null ? [low, high] : [Math.min(low, value), Math.max(high, value)]), [Infinity, -Infinity]);
const escaped = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

// Charts that want the same of one run ask together, and say which state of a curve they have.
const MOST_NAMES = 24;
const asking = new Map();
function ask(source, query, have) {
  const key = `${encodeURIComponent(source.run)}/curves?${new URLSearchParams(query)}`;
  return new Promise((resolve, reject) => {
    if (!asking.has(key)) {
      asking.set(key, []);
      setTimeout(() => send(key));
    }
    asking.get(key).push({ name: source.name, have, resolve, reject });
  });
}
function send(key) {
  const all = asking.get(key);
  asking.delete(key);
  for (let at = 0; at < all.length; at += MOST_NAMES) {
    const some = all.slice(at, at + MOST_NAMES);
    const names = some.map((one) => `&name=${encodeURIComponent(one.name)}&have=${one.have}`).join("");
    answered(`/api/runs/${key}${names}`).then(
      (curves) => some.forEach((one) => one.resolve(curves.find((curve) => curve.name === one.name))),
      (error) => some.forEach((one) => one.reject(error)));
  }
}
async function answered(address) {
  const answer = await fetch(address);
  if (answer.redirected && new URL(answer.url).pathname === "/login") { location.reload(); return []; }
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error || `error ${answer.status}`);
  return body;
}

// Only charts that somebody can see ask for figures; the others catch up when they are seen.
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
        // In steps, so that windows of about the same size ask the same.
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
      if (source.url) return (await answered(source.url)).map((one) => ({ ...one, label: one.name, whole: true }));
      const query = { axis: this.axis, points: width };
      if (this.range) [query.first, query.last] = this.range;
      // A state of a curve is known by its number, which says nothing about another range or axis.
      const asked = JSON.stringify(query), held = this.asked === asked ? this.data?.[place] : undefined;
      const found = await ask(source, query, held?.number || 0);
      this.asked = asked;
      if (!found && held) return held;
      return { label: source.label, ...(found || { x: [], y: [], low: [], high: [], exact: true, points: 0 }) };
    },
    zoomed() {
      if (this.data?.some((one) => one.whole)) return; // all of it is here already
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
      this.data.forEach((one, index) => {
        const colour = colours[index % colours.length], time = this.axis === "time";
        const x = time ? one.x.map((value) => value / 1000) : one.x;
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
          name: one.label, type: "line", symbol: one.exact && x.length < 100 ? "circle" : "none", symbolSize: 4, animation: false,
          data: x.map((v, i) => [v, positive(line[i])]), lineStyle: { color: colour, width: 1.6 }, itemStyle: { color: colour },
        });
      });
      const named = this.data.length > 1;
      const across = this.axis === "time" ? undefined : ticks(...(this.range || this.extent || [0, 0]));
      const shown = reach(this.data.flatMap((one) => (this.logarithmic ? one.y : [...one.y, ...one.low, ...one.high])));
      const up = this.logarithmic || shown[0] > shown[1] ? compact : ticks(...shown);
      this.chart.setOption({
        animation: false, grid: { left: 8, right: 14, top: named ? 30 : 10, bottom: 2, containLabel: true },
        legend: named ? { top: 0, textStyle: { color: ink }, data: this.data.map((one) => one.label) } : { show: false },
        tooltip: { trigger: "axis", confine: true, order: "valueDesc", formatter: (items) => this.tip(items) },
        xAxis: { type: this.axis === "time" ? "time" : "value", min: "dataMin", max: "dataMax", axisLabel: { color: ink, hideOverlap: true, formatter: across }, splitLine: { show: false }, axisLine: { lineStyle: { color: line } } },
        yAxis: { type: this.logarithmic ? "log" : "value", scale: true, axisLabel: { color: ink, formatter: up }, splitLine: { lineStyle: { color: line } } },
        dataZoom: [{ type: "inside", filterMode: "none", throttle: 80 }],
        series,
      }, { replaceMerge: ["series"] });
      this.$el.dataset.last = Math.max(0, ...this.data.map((one) => one.x[one.x.length - 1] ?? 0));
      this.plot.setAttribute("aria-label", `Chart of ${this.title}${this.words(across, up, shown)}`);
      const points = this.data.reduce((sum, one) => sum + one.points, 0);
      this.$el.dataset.points = points;
      this.$el.dataset.exact = this.data.every((one) => one.exact);
      if (!points) this.note.textContent = "No points yet.";
    },
    // What the axes say, for whoever cannot see them.
    words(across, up, shown) {
      const ends = this.range || this.extent;
      if (!ends || shown[0] > shown[1]) return "";
      const say = across || ((value) => new Date(value / 1000).toLocaleString());
      return `: ${this.axis} ${say(ends[0])} to ${say(ends[1])}, values ${up(shown[0])} to ${up(shown[1])}`;
    },
    tip(items) {
      const shown = items.filter((item) => item.seriesName && !item.seriesName.startsWith("series"));
      if (!shown.length) return "";
      const x = shown[0].value[0];
      const head = this.axis === "time" ? new Date(x).toLocaleString() : `${this.axis} ${Math.round(x).toLocaleString("en")}`;
      // A smoothed line says beside its own value what was measured there.
      const measured = (item) => this.data.find((one) => one.label === item.seriesName)?.y[item.dataIndex];
      const raw = (item) => (this.smoothing && typeof measured(item) === "number" ? ` <span class="rs-quiet">measured ${compact(measured(item))}</span>` : "");
      return [escaped(head), ...shown.map((item) => `${item.marker} ${escaped(item.seriesName)} <b>${compact(item.value[1])}</b>${raw(item)}`)].join("<br>");
    },
  },
};
