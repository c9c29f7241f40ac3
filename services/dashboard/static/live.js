// Live view of a run: one tile per slot, all of them or one alone, with its figures.
// Frames arrive over a web socket; the page repeats its request every second while it is visible.
const RATES = [1, 2, 5, 10, 15, 20, 30], SIZES = { small: 0.6, fit: 1, large: 1 }, MAX_SLOTS = 64;
const make = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};
const short = (value) => (value === null || value === undefined ? "–" : String(+Number(value).toPrecision(4)));
// The newest whole batch of an evaluation: eval batch 3 | episodes=50 avg=112.3 min=90.1 max=142.6
const batchText = (batch) => `eval batch ${batch.number} | episodes=${batch.episodes} ${["avg", "min", "max"].map((name) => `${name}=${short(batch[name])}`).join(" ")}`;
const many = (value) => Math.round(value).toLocaleString("en-US");
// The most square layout; one more column where that avoids gaps: eight slots are 2 × 4.
const columnsOf = (count) => {
  const least = Math.max(1, Math.ceil(Math.sqrt(count)));
  return [least, least + 1].find((columns) => count % columns === 0) || least;
};
const kept = (name, other) => { try { return localStorage.getItem(`runspine-live-${name}`) || other; } catch { return other; } };
const keep = (name, value) => { try { localStorage.setItem(`runspine-live-${name}`, value); } catch { /* private mode */ } };

export default {
  template: '<div class="rs-watch"></div>',
  props: { run: String, phase: String, ended: Boolean, attempt: Number, trouble: String },
  mounted() {
    this.fps = Number(kept("fps", 15)); this.size = kept("size", "fit");
    this.tiles = new Map(); this.one = null; this.paused = false; this.recording = 0; this.times = [];
    this.build();
    this.beat = setInterval(() => this.sendRequest(), 1000);
    this.onKey = (event) => this.key(event);
    this.onHidden = () => this.sendRequest();
    this.onResize = () => this.arrange();
    document.addEventListener("visibilitychange", this.onHidden);
    window.addEventListener("resize", this.onResize);
    this.open();
  },
  beforeUnmount() {
    this.gone = true;
    clearInterval(this.beat); clearTimeout(this.again);
    document.removeEventListener("visibilitychange", this.onHidden);
    window.removeEventListener("resize", this.onResize);
    if (this.socket) this.socket.close();
  },
  watch: {
    phase() { this.updateNotice(); }, trouble() { this.updateNotice(); if (!this.socket) this.open(); },
    attempt() { this.clear(); this.updateNotice(); },
  },
  methods: {
    build() {
      const bar = make("div", "rs-controls rs-watch-bar");
      const button = (icon, label, act) => {
        const made = make("button", "rs-control material-icons", icon);
        made.type = "button"; this.name(made, label); made.addEventListener("click", act);
        bar.append(made);
        return made;
      };
      this.back = button("grid_view", "All slots (Escape)", () => this.choose(null));
      this.pauseButton = button("pause", "Pause (space)", () => this.pause());
      this.recordButton = button("fiber_manual_record", "Record this view", () => this.record());
      this.recordButton.classList.add("rs-watch-record");
      button("fullscreen", "Full screen (F)", () => this.fullscreen());
      const select = (label, options, value, act) => {
        const made = make("select", "rs-speed");
        made.setAttribute("aria-label", label); made.title = label;
        for (const [key, text] of options) { const option = make("option", "", text); option.value = key; option.selected = String(key) === String(value); made.append(option); }
        made.addEventListener("change", () => act(made.value));
        bar.append(made);
      };
      select("Frames per second", RATES.map((rate) => [rate, `${rate} fps`]), this.fps, (value) => { this.fps = Number(value); keep("fps", value); this.sendRequest(); });
      select("Frame size", Object.keys(SIZES).map((size) => [size, size]), this.size, (value) => { this.size = value; keep("size", value); this.arrange(); this.sendRequest(); });
      this.about = make("span", "rs-watch-about");
      this.about.setAttribute("role", "status");
      bar.append(this.about);
      this.clip = make("div", "rs-watch-clip");
      this.clip.setAttribute("role", "status");
      this.stage = make("div", "rs-watch-stage");
      this.grid = make("div", "rs-watch-grid");
      this.note = make("div", "rs-notice rs-watch-note");
      this.note.setAttribute("role", "status");
      this.stage.append(this.grid, this.note);
      this.$el.append(bar, this.clip, this.stage);
      this.$el.addEventListener("keydown", (event) => this.key(event));
      this.updateNotice();
    },
    name(element, label) { element.title = label; element.setAttribute("aria-label", label); },
    // The notice in place of frames, or over them.
    updateNotice(title, text) {
      if (title) this.lost = [title, text];
      const episodes = { label: "Replay episodes", act: () => this.episodes() };
      let notice = null;
      if (this.trouble) notice = ["offline", "cloud_off", "Live frames are not available", this.trouble, episodes];
      else if (this.ended) notice = ["ended", "movie", `The run is ${this.phase}`, "There are no live frames after a run has ended. Its recorded episodes can be replayed exactly.", episodes];
      else if (this.lost) notice = ["lost", "cloud_off", this.lost[0], this.lost[1], episodes];
      else if (!this.tiles.size) notice = this.phase === "running"
        ? ["waiting", "hourglass_empty", "Waiting for the first frame", "Envs are rendered at their next step. While the trainer loads or learns without stepping, there are no frames.", null]
        : ["waiting", "hourglass_empty", `The run is ${this.phase}`, "Frames appear as soon as it trains.", null];
      this.$el.dataset.state = notice ? notice[0] : this.paused ? "paused" : "live";
      this.note.hidden = !notice;
      this.stage.classList.toggle("rs-watch-veiled", Boolean(notice) && this.tiles.size > 0);
      const content = JSON.stringify(notice);
      if (content === this.shownNotice) return;
      this.shownNotice = content;
      this.note.replaceChildren();
      if (!notice) return;
      this.note.append(make("i", "material-icons rs-notice-icon", notice[1]), make("div", "rs-notice-title", notice[2]), make("div", "rs-notice-text", notice[3]));
      if (notice[4]) this.note.append(this.link(notice[4].label, notice[4].act));
    },
    link(label, act) {
      const made = make("button", "rs-watch-link", label);
      made.type = "button"; made.addEventListener("click", (event) => { event.stopPropagation(); act(); });
      return made;
    },
    episodes() { window.location.assign(`/run/${encodeURIComponent(this.run)}?tab=episodes`); },
    open() {
      if (this.gone || this.trouble || this.socket) return;
      const base = window.location.origin.replace(/^http/, "ws");
      const socket = new WebSocket(`${base}/api/runs/${encodeURIComponent(this.run)}/live`);
      socket.binaryType = "arraybuffer";
      socket.onopen = () => { this.lost = null; this.updateNotice(); this.sendRequest(); };
      socket.onmessage = (event) => (typeof event.data === "string" ? this.receive(JSON.parse(event.data)) : this.takeFrame(event.data));
      socket.onclose = (event) => {
        this.socket = null;
        if (this.gone) return;
        if (this.recording) this.recorded({ error: "the connection was lost" });
        this.updateNotice("Connection lost", event.reason || "Reconnecting…");
        if (event.code !== 4401 && event.code !== 4404) this.again = setTimeout(() => this.open(), 1000);
      };
      this.socket = socket;
    },
    send(message) { if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message)); },
    // Repeated every second: a page that hangs or is hidden must not keep envs rendering.
    sendRequest() {
      const idle = this.paused || (document.hidden && !this.recording) || this.ended || !this.$el.isConnected || !this.$el.offsetParent;
      if (idle !== this.idle || !idle) this.send({ look: idle ? null : { fps: this.fps, width: this.width(), slots: this.one === null ? [] : [this.one] } });
      this.idle = idle;
      this.figures();
    },
    width() {
      const tile = this.grid.querySelector(".rs-watch-tile:not([hidden]) .rs-watch-box");
      const shown = tile ? tile.clientWidth : this.one === null ? 320 : this.$el.clientWidth;
      return Math.max(64, Math.min(1280, Math.round(shown * Math.min(2, window.devicePixelRatio || 1))));
    },
    receive(message) {
      if (message.round) { this.round = message.round; this.showRound(); }
      if (message.recording) { this.recording = Date.now(); this.maxSeconds = message.recording.most; this.figures(); }
      if (message.clip) this.recorded(message.clip);
    },
    // Paint all slots of a round at once, then acknowledge it, so that the server sends the next.
    async showRound() {
      const round = this.round, arrived = this.arriving || [];
      this.arriving = [];
      const bitmaps = await Promise.all(arrived.map(([, drawing]) => drawing));
      if (!document.hidden) await new Promise((done) => requestAnimationFrame(done));
      arrived.forEach(([tile], index) => { if (bitmaps[index]) this.paint(tile, bitmaps[index]); });
      this.send({ seen: round });
    },
    takeFrame(data) {
      const length = new DataView(data).getUint32(0, true);
      const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
      if (header.slot >= MAX_SLOTS || this.paused) return;
      this.arrived = performance.now();
      if (header.attempt < (this.newestAttempt || 0)) return;
      this.newestAttempt = header.attempt;
      if (Math.min(header.slots, MAX_SLOTS) > this.tiles.size) this.grow(Math.min(header.slots, MAX_SLOTS));
      const tile = this.tiles.get(header.slot);
      if (!tile) return;
      tile.header = header;
      if (header.trouble) { this.updateHud(tile); this.showTrouble(tile, header.trouble); return; }
      const picture = new Blob([new Uint8Array(data, 4 + length)], { type: "image/jpeg" });
      this.arriving = this.arriving || [];
      this.arriving.push([tile, createImageBitmap(picture).catch(() => null)]);
    },
    paint(tile, bitmap) {
      const { canvas } = tile;
      this.updateHud(tile);
      if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
        const shape = bitmap.height / bitmap.width;
        canvas.width = bitmap.width; canvas.height = bitmap.height;
        if (Math.abs(shape - (this.shape || 0)) > 0.01) { this.shape = shape; this.arrange(); }
      }
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
      // Small frames, such as those of emulators, are scaled without smoothing.
      canvas.classList.toggle("rs-watch-pixels", bitmap.width < 200);
      bitmap.close();
      if (tile.state !== "drawn") { tile.state = "drawn"; tile.box.dataset.state = "drawn"; tile.words.replaceChildren(); }
      tile.painted += 1;
      tile.box.dataset.painted = tile.painted;
      this.$el.dataset.frames = Number(this.$el.dataset.frames || 0) + 1;
      tile.times.push(performance.now());
      while (tile.times.length && tile.times[0] < performance.now() - 2000) tile.times.shift();
    },
    grow(count) {
      for (let slot = this.tiles.size; slot < count; slot++) {
        const box = make("button", "rs-watch-tile"), frame = make("div", "rs-watch-box"), canvas = make("canvas", "rs-watch-canvas");
        const top = make("div", "rs-watch-top"), hud = make("div", "rs-watch-hud"), words = make("div", "rs-watch-words", "waiting for a frame");
        box.type = "button"; this.name(box, `Slot ${slot}`);
        box.addEventListener("click", () => this.choose(this.one === slot ? null : slot));
        frame.append(canvas, words, top, hud);
        box.append(frame);
        box.dataset.slot = slot; box.dataset.painted = 0;
        this.grid.append(box);
        this.tiles.set(slot, { box, canvas, top, hud, words, painted: 0, times: [] });
      }
      this.$el.dataset.slots = count;
      this.arrange(); this.updateNotice(); this.sendRequest();
    },
    clear() { this.grid.replaceChildren(); this.tiles.clear(); this.newestAttempt = 0; },
    // The figures of a tile.
    updateHud(tile) {
      const { slot, hud } = tile.header;
      tile.top.textContent = hud.actor ? `${slot} · ${hud.actor}` : `${slot}`;
      const rows = [["return", short(hud.episode_return)], ["step", many(hud.episode_step)], ["ep.", hud.episode]];
      if (!tile.values) {
        tile.values = rows.map(() => make("span", "rs-watch-value"));
        tile.hud.append(...rows.flatMap(([name], index) => [make("span", "rs-watch-name", name), tile.values[index]]));
      }
      rows.forEach(([, value], index) => { tile.values[index].textContent = value; });
      this.newest = hud;
    },
    // Drawn once: a link that is replaced with every frame cannot be clicked.
    showTrouble(tile, why) {
      if (tile.state === "trouble" && tile.why === why) return;
      tile.why = why;
      tile.state = tile.box.dataset.state = "trouble";
      tile.words.replaceChildren(make("i", "material-icons", "visibility_off"), make("div", "", why), this.spanLink());
      tile.canvas.width = tile.canvas.width;
    },
    // A link, because a button must not contain another button.
    spanLink() {
      const made = make("a", "rs-watch-link", "Replay episodes");
      made.href = `/run/${encodeURIComponent(this.run)}?tab=episodes`;
      made.addEventListener("click", (event) => event.stopPropagation());
      return made;
    },
    arrange() {
      const alone = this.one !== null, count = alone ? 1 : this.tiles.size;
      const wide = this.$el.clientWidth < 700 ? Math.min(2, columnsOf(count)) : columnsOf(count);
      const rows = Math.max(1, Math.ceil(count / Math.max(1, wide))), gap = 8;
      // As large as fits on the screen without scrolling; "large" uses the whole width.
      const below = Math.max(260, window.innerHeight - this.grid.getBoundingClientRect().top - window.scrollY - 24);
      const fitting = ((below - (rows - 1) * gap) / rows / (this.shape || 0.67)) * wide + (wide - 1) * gap;
      this.grid.style.gridTemplateColumns = `repeat(${Math.max(1, wide)}, minmax(0, 1fr))`;
      this.grid.style.maxWidth = this.size === "large" && !alone ? "" : `${Math.round(fitting * (alone ? 1 : SIZES[this.size]))}px`;
      this.grid.classList.toggle("rs-watch-alone", alone);
      for (const [slot, tile] of this.tiles) tile.box.hidden = alone && slot !== this.one;
      this.back.disabled = !alone;
    },
    choose(slot) {
      if (this.recording && slot !== this.one) this.record();
      const before = this.one;
      this.one = slot;
      this.arrange(); this.sendRequest();
      const tile = this.tiles.get(slot === null ? before : slot);
      if (tile) tile.box.focus();
    },
    pause() {
      this.paused = !this.paused;
      this.pauseButton.textContent = this.paused ? "play_arrow" : "pause";
      this.name(this.pauseButton, this.paused ? "Resume (space)" : "Pause (space)");
      this.updateNotice(); this.sendRequest();
    },
    fullscreen() { if (document.fullscreenElement) document.exitFullscreen(); else this.$el.requestFullscreen(); },
    record() {
      if (this.recording) this.send({ record: false });
      else if (this.$el.dataset.state === "live") { this.clip.replaceChildren(); this.send({ record: true }); }
    },
    recorded(clip) {
      this.recording = 0;
      this.figures();
      if (clip.error) { this.clip.textContent = `The recording failed: ${clip.error}`; return; }
      const link = make("a", "rs-watch-link", `Download the clip (${clip.seconds.toFixed(1)} s, ${clip.width} × ${clip.height})`);
      link.href = clip.url; link.download = "";
      this.clip.replaceChildren(link);
    },
    figures() {
      const hud = this.newest, recording = Boolean(this.recording);
      this.recordButton.classList.toggle("rs-watch-recording", recording);
      this.recordButton.textContent = recording ? "stop" : "fiber_manual_record";
      this.name(this.recordButton, recording ? "Stop recording" : "Record this view");
      const shown = [...this.tiles.values()].filter((tile) => !tile.box.hidden && tile.times.length > 1);
      const rates = shown.map((tile) => {
        while (tile.times.length && tile.times[0] < performance.now() - 2000) tile.times.shift();
        return tile.times.length > 1 ? ((tile.times.length - 1) * 1000) / (tile.times[tile.times.length - 1] - tile.times[0]) : 0;
      });
      const fps = rates.length ? Math.min(...rates) : 0;
      this.$el.dataset.fps = fps.toFixed(1);
      const words = [];
      if (recording) words.push(`● recording ${Math.round((Date.now() - this.recording) / 1000)} of ${this.maxSeconds} s`);
      if (hud) {
        words.push(`step ${many(hud.step)}`);
        if (hud.rate) words.push(`${many(hud.rate)} steps/s`);
        if (hud.batch) words.push(`evaluation batch ${hud.batch}`);
        if (hud.evaluated) words.push(batchText(hud.evaluated));
      }
      if (fps) words.push(`${fps.toFixed(fps < 10 ? 1 : 0)} fps shown`);
      if (this.arrived && !this.paused && performance.now() - this.arrived > 3000) words.push(`no new frame for ${Math.round((performance.now() - this.arrived) / 1000)} s`);
      this.about.textContent = words.join("  ·  ");
    },
    key(event) {
      if (event.ctrlKey || event.metaKey || event.altKey || ["SELECT", "INPUT"].includes(event.target.tagName)) return;
      const onButton = event.target.tagName === "BUTTON" || event.target.tagName === "A";
      if (event.key === "Escape" && this.one !== null && !document.fullscreenElement) this.choose(null);
      else if (event.key === " " && !(onButton && event.target.classList.contains("rs-control"))) this.pause();
      else if (event.key === "f" || event.key === "F") this.fullscreen();
      else if (event.key === "ArrowRight" || event.key === "ArrowLeft") this.step(event.key === "ArrowRight" ? 1 : -1);
      else return;
      event.preventDefault();
    },
    // Go to the next or previous slot: focus it in the grid, or show it instead of the current one.
    step(by) {
      const at = this.one !== null ? this.one : Number(document.activeElement?.dataset?.slot ?? -1);
      const next = (at + by + this.tiles.size) % Math.max(1, this.tiles.size);
      if (this.one !== null) this.choose(next);
      else this.tiles.get(next)?.box.focus();
    },
  },
};
