// A run as it happens: one picture for each slot, all of them or one, with its figures beside it.
// Frames come over a web socket; the page says every second what it wants, and falls silent when hidden.
const RATES = [1, 2, 5, 10, 15, 20, 30], SIZES = { small: 0.6, fit: 1, large: 1 }, MOST = 64;
const make = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};
const short = (value) => (value === null || value === undefined ? "–" : String(+Number(value).toPrecision(4)));
const many = (value) => Math.round(value).toLocaleString("en-US");
// As square as it can be, but without gaps where one more column does it: eight are 2 × 4.
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
    this.beat = setInterval(() => this.say(), 1000);
    this.onKey = (event) => this.key(event);
    this.onHidden = () => this.say();
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
    phase() { this.tell(); }, trouble() { this.tell(); if (!this.socket) this.open(); },
    attempt() { this.clear(); this.tell(); },
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
      this.recordButton = button("fiber_manual_record", "Record what is shown", () => this.record());
      this.recordButton.classList.add("rs-watch-record");
      button("fullscreen", "Full screen (F)", () => this.fullscreen());
      const select = (label, options, value, act) => {
        const made = make("select", "rs-speed");
        made.setAttribute("aria-label", label); made.title = label;
        for (const [key, text] of options) { const option = make("option", "", text); option.value = key; option.selected = String(key) === String(value); made.append(option); }
        made.addEventListener("change", () => act(made.value));
        bar.append(made);
      };
      select("Frames a second", RATES.map((rate) => [rate, `${rate} fps`]), this.fps, (value) => { this.fps = Number(value); keep("fps", value); this.say(); });
      select("Size of the pictures", Object.keys(SIZES).map((size) => [size, size]), this.size, (value) => { this.size = value; keep("size", value); this.arrange(); this.say(); });
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
      this.tell();
    },
    name(element, label) { element.title = label; element.setAttribute("aria-label", label); },
    // What is to be said in the place of pictures, or beside them.
    tell(state, text) {
      if (state) this.lost = [state, text];
      const episodes = { label: "Play its episodes again", act: () => this.episodes() };
      let said = null;
      if (this.trouble) said = ["offline", "cloud_off", "Live pictures are not available here", this.trouble, episodes];
      else if (this.ended) said = ["ended", "movie", `Nobody trains here now: the run is ${this.phase}`, "Every episode is on record and can be played again exactly.", episodes];
      else if (this.lost) said = ["lost", "cloud_off", this.lost[0], this.lost[1], episodes];
      else if (!this.tiles.size) said = this.phase === "running"
        ? ["waiting", "hourglass_empty", "Waiting for the first picture", "The envs are drawn at their next step. While a trainer loads or learns without stepping, nothing moves.", null]
        : ["waiting", "hourglass_empty", `The run is ${this.phase}`, "Pictures come as soon as it trains.", null];
      this.$el.dataset.state = said ? said[0] : this.paused ? "paused" : "live";
      this.note.hidden = !said;
      this.stage.classList.toggle("rs-watch-veiled", Boolean(said) && this.tiles.size > 0);
      const words = JSON.stringify(said);
      if (words === this.told) return;
      this.told = words;
      this.note.replaceChildren();
      if (!said) return;
      this.note.append(make("i", "material-icons rs-notice-icon", said[1]), make("div", "rs-notice-title", said[2]), make("div", "rs-notice-text", said[3]));
      if (said[4]) this.note.append(this.link(said[4].label, said[4].act));
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
      socket.onopen = () => { this.lost = null; this.tell(); this.say(); };
      socket.onmessage = (event) => (typeof event.data === "string" ? this.hear(JSON.parse(event.data)) : this.take(event.data));
      socket.onclose = (event) => {
        this.socket = null;
        if (this.gone) return;
        if (this.recording) this.recorded({ error: "the connection was lost" });
        this.tell("The connection is lost", event.reason || "Trying again…");
        if (event.code !== 4401 && event.code !== 4404) this.again = setTimeout(() => this.open(), 1000);
      };
      this.socket = socket;
    },
    send(said) { if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(said)); },
    // Said every second: a page that hangs or is hidden must not keep the envs being drawn.
    say() {
      const asleep = this.paused || (document.hidden && !this.recording) || this.ended || !this.$el.isConnected || !this.$el.offsetParent;
      if (asleep !== this.asleep || !asleep) this.send({ look: asleep ? null : { fps: this.fps, width: this.width(), slots: this.one === null ? [] : [this.one] } });
      this.asleep = asleep;
      this.figures();
    },
    width() {
      const tile = this.grid.querySelector(".rs-watch-tile:not([hidden]) .rs-watch-box");
      const shown = tile ? tile.clientWidth : this.one === null ? 320 : this.$el.clientWidth;
      return Math.max(64, Math.min(1280, Math.round(shown * Math.min(2, window.devicePixelRatio || 1))));
    },
    hear(said) {
      if (said.round) { this.round = said.round; this.catchUp(); }
      if (said.recording) { this.recording = Date.now(); this.most = said.recording.most; this.figures(); }
      if (said.clip) this.recorded(said.clip);
    },
    // All slots of a round at once, then the server may send the next: the browser composes the page once.
    async catchUp() {
      const round = this.round, arrived = this.arriving || [];
      this.arriving = [];
      const bitmaps = await Promise.all(arrived.map(([, drawing]) => drawing));
      if (!document.hidden) await new Promise((done) => requestAnimationFrame(done));
      arrived.forEach(([tile], index) => { if (bitmaps[index]) this.paint(tile, bitmaps[index]); });
      this.send({ seen: round });
    },
    take(data) {
      const length = new DataView(data).getUint32(0, true);
      const said = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
      if (said.slot >= MOST || this.paused) return;
      this.arrived = performance.now();
      if (said.attempt < (this.newestAttempt || 0)) return;
      this.newestAttempt = said.attempt;
      if (Math.min(said.slots, MOST) > this.tiles.size) this.grow(Math.min(said.slots, MOST));
      const tile = this.tiles.get(said.slot);
      if (!tile) return;
      tile.said = said;
      if (said.trouble) { this.beside(tile); this.refuse(tile, said.trouble); return; }
      const picture = new Blob([new Uint8Array(data, 4 + length)], { type: "image/jpeg" });
      this.arriving = this.arriving || [];
      this.arriving.push([tile, createImageBitmap(picture).catch(() => null)]);
    },
    paint(tile, bitmap) {
      const { canvas } = tile;
      this.beside(tile);
      if (canvas.width !== bitmap.width || canvas.height !== bitmap.height) {
        const shape = bitmap.height / bitmap.width;
        canvas.width = bitmap.width; canvas.height = bitmap.height;
        if (Math.abs(shape - (this.shape || 0)) > 0.01) { this.shape = shape; this.arrange(); }
      }
      canvas.getContext("2d").drawImage(bitmap, 0, 0);
      // Small pictures are made larger by whole pixels: an emulator's are meant to be seen so.
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
        const top = make("div", "rs-watch-top"), hud = make("div", "rs-watch-hud"), words = make("div", "rs-watch-words", "waiting for a picture");
        box.type = "button"; this.name(box, `Slot ${slot}`);
        box.addEventListener("click", () => this.choose(this.one === slot ? null : slot));
        frame.append(canvas, words, top, hud);
        box.append(frame);
        box.dataset.slot = slot; box.dataset.painted = 0;
        this.grid.append(box);
        this.tiles.set(slot, { box, canvas, top, hud, words, painted: 0, times: [] });
      }
      this.$el.dataset.slots = count;
      this.arrange(); this.tell(); this.say();
    },
    clear() { this.grid.replaceChildren(); this.tiles.clear(); this.newestAttempt = 0; },
    // What stands beside the picture.
    beside(tile) {
      const { slot, hud } = tile.said;
      tile.top.textContent = hud.actor ? `${slot} · ${hud.actor}` : `${slot}`;
      const rows = [["return", short(hud.episode_return)], ["step", many(hud.episode_step)], ["ep.", hud.episode]];
      if (!tile.values) {
        tile.values = rows.map(() => make("span", "rs-watch-value"));
        tile.hud.append(...rows.flatMap(([name], index) => [make("span", "rs-watch-name", name), tile.values[index]]));
      }
      rows.forEach(([, value], index) => { tile.values[index].textContent = value; });
      this.newest = hud;
    },
    // Once: what is made again at every frame cannot be clicked.
    refuse(tile, why) {
      if (tile.state === "trouble" && tile.why === why) return;
      tile.why = why;
      tile.state = tile.box.dataset.state = "trouble";
      tile.words.replaceChildren(make("i", "material-icons", "visibility_off"), make("div", "", why), this.spanLink());
      tile.canvas.width = tile.canvas.width;
    },
    // No button inside a button: a word that a click and Enter reach.
    spanLink() {
      const made = make("a", "rs-watch-link", "Play its episodes again");
      made.href = `/run/${encodeURIComponent(this.run)}?tab=episodes`;
      made.addEventListener("click", (event) => event.stopPropagation());
      return made;
    },
    arrange() {
      const alone = this.one !== null, count = alone ? 1 : this.tiles.size;
      const wide = this.$el.clientWidth < 700 ? Math.min(2, columnsOf(count)) : columnsOf(count);
      const rows = Math.max(1, Math.ceil(count / Math.max(1, wide))), gap = 8;
      // As large as fits on the screen without scrolling; "large" takes the whole width.
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
      this.arrange(); this.say();
      const tile = this.tiles.get(slot === null ? before : slot);
      if (tile) tile.box.focus();
    },
    pause() {
      this.paused = !this.paused;
      this.pauseButton.textContent = this.paused ? "play_arrow" : "pause";
      this.name(this.pauseButton, this.paused ? "Go on (space)" : "Pause (space)");
      this.tell(); this.say();
    },
    fullscreen() { if (document.fullscreenElement) document.exitFullscreen(); else this.$el.requestFullscreen(); },
    record() {
      if (this.recording) this.send({ record: false });
      else if (this.$el.dataset.state === "live") { this.clip.replaceChildren(); this.send({ record: true }); }
    },
    recorded(clip) {
      this.recording = 0;
      this.figures();
      if (clip.error) { this.clip.textContent = `Nothing was recorded: ${clip.error}`; return; }
      const link = make("a", "rs-watch-link", `Download the clip (${clip.seconds.toFixed(1)} s, ${clip.width} × ${clip.height})`);
      link.href = clip.url; link.download = "";
      this.clip.replaceChildren(link);
    },
    figures() {
      const hud = this.newest, recording = Boolean(this.recording);
      this.recordButton.classList.toggle("rs-watch-recording", recording);
      this.recordButton.textContent = recording ? "stop" : "fiber_manual_record";
      this.name(this.recordButton, recording ? "Stop recording" : "Record what is shown");
      const shown = [...this.tiles.values()].filter((tile) => !tile.box.hidden && tile.times.length > 1);
      const rates = shown.map((tile) => {
        while (tile.times.length && tile.times[0] < performance.now() - 2000) tile.times.shift();
        return tile.times.length > 1 ? ((tile.times.length - 1) * 1000) / (tile.times[tile.times.length - 1] - tile.times[0]) : 0;
      });
      const fps = rates.length ? Math.min(...rates) : 0;
      this.$el.dataset.fps = fps.toFixed(1);
      const words = [];
      if (recording) words.push(`● recording ${Math.round((Date.now() - this.recording) / 1000)} of ${this.most} s`);
      if (hud) {
        words.push(`step ${many(hud.step)}`);
        if (hud.rate) words.push(`${many(hud.rate)} steps/s`);
        if (hud.batch) words.push(`evaluation batch ${hud.batch}`);
      }
      if (fps) words.push(`${fps.toFixed(fps < 10 ? 1 : 0)} fps shown`);
      if (this.arrived && !this.paused && performance.now() - this.arrived > 3000) words.push(`nothing new for ${Math.round((performance.now() - this.arrived) / 1000)} s`);
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
    // To the neighbour: in the grid its picture gets the focus, alone it is shown instead.
    step(by) {
      const at = this.one !== null ? this.one : Number(document.activeElement?.dataset?.slot ?? -1);
      const next = (at + by + this.tiles.size) % Math.max(1, this.tiles.size);
      if (this.one !== null) this.choose(next);
      else this.tiles.get(next)?.box.focus();
    },
  },
};
