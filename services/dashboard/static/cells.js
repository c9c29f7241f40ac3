// Cells, filter and rows of the runs table. Text of users and trainers is set as text, never as HTML.
window.rs = (() => {
  const element = (tag, className, text) => {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined && text !== null) made.textContent = text;
    return made;
  };
  const short = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    const size = Math.abs(value);
    if (size >= 1e9) return (value / 1e9).toFixed(1) + "G";
    if (size >= 1e6) return (value / 1e6).toFixed(size >= 1e7 ? 0 : 1) + "M";
    if (size >= 1e4) return (value / 1e3).toFixed(0) + "k";
    if (size >= 1000) return Math.round(value).toLocaleString("en");
    if (Number.isInteger(value)) return String(value);
    return value.toPrecision(3);
  };
  const age = (milliseconds) => {
    const seconds = Math.max(0, (Date.now() - milliseconds) / 1000);
    if (seconds < 60) return Math.floor(seconds) + "s";
    if (seconds < 3600) return Math.floor(seconds / 60) + "m";
    if (seconds < 86400) return Math.floor(seconds / 3600) + "h";
    return Math.floor(seconds / 86400) + "d";
  };
  const badge = (p) => {
    const made = element("span", "rs-badge rs-" + p.value, p.value);
    if (p.data.reason) made.title = p.data.reason;
    return made;
  };
  const name = (p) => {
    const link = element("a", "rs-name", p.value);
    link.href = "/run/" + encodeURIComponent(p.data.id);
    link.title = p.value;
    return link;
  };
  const progress = (p) => {
    const box = element("div", "rs-progress");
    const bar = element("div", "rs-track");
    const fill = element("div", "rs-fill rs-fill-" + p.data.phase);
    fill.style.width = ((p.value ?? (p.data.step ? 1 : 0)) * 100).toFixed(1) + "%";
    bar.append(fill);
    box.append(bar, element("span", "rs-steps", short(p.data.step) + (p.data.total ? " / " + short(p.data.total) : "")));
    return box;
  };
  const spark = (p) => {
    const box = element("div", "rs-spark");
    let points = (p.data.returns || []).filter((value) => value !== null);
    if (points.length < 8 && p.data.step) {
      requestSpark(p.data.id);
      points = [...(sparks.get(p.data.id) || []), ...points].filter((value) => value !== null);
    }
    if (points.length > 1) {
      const low = Math.min(...points), high = Math.max(...points), room = high - low || 1;
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("viewBox", "0 0 80 22");
      svg.setAttribute("aria-hidden", "true");
      const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
      line.setAttribute("points", points.map((value, i) =>
        `${(i / (points.length - 1) * 78 + 1).toFixed(1)},${(20 - (value - low) / room * 18).toFixed(1)}`).join(" "));
      svg.append(line);
      box.append(svg);
    }
    box.append(element("span", "rs-number", short(p.value)));
    return box;
  };
  const labels = (p) => {
    const box = element("div", "rs-labels");
    for (const [key, value] of p.value || []) box.append(element("span", "rs-label", value ? `${key}=${value}` : key));
    return box;
  };
  const keys = {
    env: (row) => row.env || "–", algo: (row) => row.algo || "–", project: (row) => row.project || "–",
    runner: (row) => row.runner || "–", "env · algo": (row) => `${row.env || "–"} · ${row.algo || "–"}`,
  };
  let filter = { words: [], phases: null, by: "", group: "" }, grid = null;
  // `phases`: those that are shown, null for all.
  const setFilter = ({ text, phases, by, group }) => {
    filter = { words: text.toLowerCase().split(/\s+/).filter(Boolean), phases, by, group };
    grid?.onFilterChanged();
  };
  const filtering = () => filter.words.length > 0 || filter.phases !== null || filter.group !== "";
  const passes = (node) => {
    const { words, phases, by, group } = filter, row = node.data;
    if (phases !== null && !phases.includes(row.phase)) return false;
    if (group && keys[by] && keys[by](row) !== group) return false;
    if (!words.length) return true;
    const text = [row.name, row.id, row.env, row.algo, row.runner, row.worker, row.project,
      ...row.labels.map(([k, v]) => `${k}=${v}`)].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  };
  const narrow = window.matchMedia("(max-width: 800px)");
  const fit = () => {
    grid?.setColumnsVisible(["env", "algo", "seed", "sps", "submitted", "worker", "labels"], !narrow.matches);
    // On a phone only state, name, progress and return fit.
    const widths = narrow.matches ? { phase: 96, last_return: 80 } : { phase: 110, last_return: 150 };
    grid?.applyColumnState({ state: Object.entries(widths).map(([colId, width]) => ({ colId, width })) });
  };
  narrow.addEventListener("change", fit);
  const ready = (p) => {
    grid = p.api;
    fit();
    grid.setGridOption("rowData", [...listed.values()]);
    grid.onFilterChanged();
    // Refresh the ages.
    setInterval(() => { if (!document.hidden && !p.api.isDestroyed()) p.api.refreshCells({ columns: ["submitted"], force: true }); }, 10000);
  };
  // Rows that are new or have changed. They may arrive before the grid is ready.
  const listed = new Map();
  const rows = (changed) => {
    const fresh = changed.filter((row) => !listed.has(row.id)), known = changed.filter((row) => listed.has(row.id));
    changed.forEach((row) => listed.set(row.id, row));
    if (grid && !grid.isDestroyed()) grid.applyTransactionAsync({ add: fresh, update: known });
  };
  const count = (p) => {
    const place = document.getElementById("rs-count");
    if (!place) return;
    const shown = p.api.getDisplayedRowCount();
    place.textContent = `${shown.toLocaleString("en")} run${shown === 1 ? "" : "s"}`;
  };
  // Ids and names of the ticked runs.
  const selected = () => (grid ? grid.getSelectedRows().map((row) => [row.id, row.name]) : []);
  // Enter opens the focused run, space ticks it.
  const press = (p) => {
    if (p.event.key === "Enter" && p.data) location.assign("/run/" + encodeURIComponent(p.data.id));
  };
  // Sparklines of runs that ended before this page was opened are fetched when their rows become visible.
  const sparks = new Map(), wanted = new Set();
  let pending = 0;
  const requestSpark = (id) => {
    if (sparks.has(id)) return;
    sparks.set(id, []);
    wanted.add(id);
    if (!pending) pending = setTimeout(fetchSparks, 150);
  };
  const fetchSparks = async () => {
    const ids = [...wanted].slice(-30);
    ids.forEach((id) => wanted.delete(id));
    try {
      const answer = await fetch("/api/sparks?" + ids.map((id) => "run=" + encodeURIComponent(id)).join("&"));
      for (const [id, points] of answer.ok ? await answer.json() : []) sparks.set(id, points);
    } catch { ids.forEach((id) => sparks.delete(id)); }
    const nodes = ids.map((id) => grid?.getRowNode(id)).filter(Boolean);
    if (nodes.length) grid.refreshCells({ rowNodes: nodes, columns: ["last_return"], force: true });
    pending = wanted.size ? setTimeout(fetchSparks, 150) : 0;
  };
  // A hidden tab receives no updates.
  const reportVisibility = () => {
    const report = () => emitEvent("rs-visibility", !document.hidden);
    document.addEventListener("visibilitychange", report);
    if (document.hidden) report();
  };
  // When the session is over, the server closes the socket for good: the page leads to the login.
  const watchSession = () => {
    const check = async () => {
      const answer = await fetch("/session").catch(() => null);
      if (answer?.status === 401) location.reload();
    };
    window.socket.on("disconnect", check);
    window.socket.io.on("error", check);
  };
  return {
    badge, name, progress, spark, labels, filtering, passes, setFilter, short, ready, count, rows, selected, reportVisibility, watchSession, keys: press,
    none: () => "",
    byTime: (one, other) => one - other,
    rate: (p) => (p.data.phase === "running" && p.value ? short(p.value) : "–"),
    age: (p) => age(p.value),
  };
})();
