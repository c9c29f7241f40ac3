// Replays episodes step by step and in lock-step: frames on the left, recorded values next to them.
// Values are fetched as JSON, frames as images; the server only sets the episodes.
const AHEAD = 12, WINDOW = 200;
const make = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};
const short = (value) => (value === null || value === undefined ? "–" : String(+Number(value).toPrecision(6)));

export default {
  template: '<div class="rs-scrubber"></div>',
  props: { sources: Array },
  mounted() { this.step = 0; this.playing = false; this.speed = 1; this.build(); },
  beforeUnmount() { this.gone = true; clearTimeout(this.timer); },
  watch: { sources() { this.stop(); this.step = 0; this.build(); } },
  methods: {
    build() {
      this.$el.replaceChildren();
      this.panes = this.sources.map((source) => this.pane(source));
      const stage = make("div", "rs-stage");
      stage.append(...this.panes.map((pane) => pane.box));
      this.$el.append(stage, this.controls());
      this.panes.forEach((pane) => this.open(pane));
    },
    pane(source) {
      const box = make("section", "rs-pane rs-card"), head = make("div", "rs-pane-head"), body = make("div", "rs-pane-body");
      const title = make("div", "rs-pane-title", source.label), verdict = make("div", "rs-verdict", "loading…");
      verdict.setAttribute("role", "status");
      const image = make("img", "rs-frame"), facts = make("dl", "rs-facts"), note = make("div", "rs-frame-note");
      image.alt = `Frame of ${source.label}`;
      const seen = {};
      for (const name of ["step", "action", "reward", "return so far", "end", "observation"]) {
        seen[name] = make("dd", "", "–");
        facts.append(make("dt", "", name), seen[name]);
      }
      const shown = make("div", "rs-frame-box");
      shown.append(image, note);
      head.append(title, verdict);
      body.append(shown, facts);
      box.append(head, body);
      const base = `/api/runs/${encodeURIComponent(source.run)}/episodes/`;
      return { source, box, image, note, seen, verdict, title, base, length: 0, steps: new Map(), asked: new Set(), frames: new Map() };
    },
    controls() {
      const bar = make("div", "rs-controls");
      const button = (icon, label, act) => {
        const made = make("button", "rs-control material-icons", icon);
        made.type = "button"; made.title = label; made.setAttribute("aria-label", label);
        made.addEventListener("click", act);
        bar.append(made);
        return made;
      };
      button("skip_previous", "First step", () => this.go(0));
      button("navigate_before", "One step back", () => this.go(this.step - 1));
      this.play = button("play_arrow", "Play", () => this.toggle());
      button("navigate_next", "One step forward", () => this.go(this.step + 1));
      button("skip_next", "Last step", () => this.go(this.lastStep()));
      this.slider = make("input", "rs-scrub");
      Object.assign(this.slider, { type: "range", min: 0, max: 0, value: 0 });
      this.slider.setAttribute("aria-label", "Step of the episode");
      this.slider.addEventListener("input", () => { this.stop(); this.go(Number(this.slider.value)); });
      this.where = make("span", "rs-where", "0 / 0");
      const speed = make("select", "rs-speed");
      speed.setAttribute("aria-label", "Speed");
      for (const value of [0.25, 0.5, 1, 2, 4]) { const option = make("option", "", `${value}×`); option.value = value; option.selected = value === 1; speed.append(option); }
      speed.addEventListener("change", () => { this.speed = Number(speed.value); });
      bar.append(this.slider, this.where, speed);
      bar.addEventListener("keydown", (event) => {
        if (event.key === " " && event.target === this.slider) { event.preventDefault(); this.toggle(); }
      });
      return bar;
    },
    lastStep() { return Math.max(0, ...this.panes.map((pane) => pane.length)); },
    async open(pane) {
      try {
        const about = await this.fetch(pane.base + encodeURIComponent(pane.source.episode));
        pane.base += about.index;
        pane.length = about.length;
        pane.first = about.first;
        pane.title.textContent = `${pane.source.label} · episode ${about.index} · return ${short(about.return)} · ${about.length} steps`;
        this.slider.max = this.lastStep();
        this.show();
        pane.verdict.textContent = "replaying…";
        const found = await this.fetch(pane.base + "/verdict");
        const words = {
          exact: `✓ exact: all ${found.verified} steps match the record`,
          diverged: `✗ diverged: ${found.text}`,
          stored: `– not replayed: ${found.text}`,
        };
        pane.verdict.textContent = words[found.outcome];
        pane.verdict.title = found.changed.join("\n");
        pane.verdict.className = `rs-verdict rs-verdict-${found.outcome}`;
        this.$el.dataset.verdict = found.outcome;
      } catch (error) {
        pane.verdict.textContent = error.message;
        pane.verdict.className = "rs-verdict rs-verdict-diverged";
      }
    },
    async fetch(address) {
      const answer = await fetch(address);
      const body = await answer.json().catch(() => ({}));
      if (!answer.ok) throw new Error(body.error || `error ${answer.status}`);
      return body;
    },
    go(step) { this.step = Math.max(0, Math.min(step, this.lastStep())); this.show(); },
    toggle() { if (this.playing) this.stop(); else this.start(); },
    start() {
      if (this.step >= this.lastStep()) this.step = 0;
      this.playing = true; this.play.textContent = "pause"; this.play.setAttribute("aria-label", "Pause");
      this.tick();
    },
    stop() { this.playing = false; clearTimeout(this.timer); if (this.play) { this.play.textContent = "play_arrow"; this.play.setAttribute("aria-label", "Play"); } },
    async tick() {
      if (!this.playing || this.gone) return;
      const begun = performance.now();
      await Promise.all(this.panes.map((pane) => this.frame(pane, Math.min(this.step + 1, pane.length))));
      if (!this.playing || this.gone) return;
      this.go(this.step + 1);
      if (this.step >= this.lastStep()) { this.stop(); return; }
      this.timer = setTimeout(() => this.tick(), Math.max(0, 33 / this.speed - (performance.now() - begun)));
    },
    show() {
      this.slider.value = this.step;
      this.where.textContent = `${this.step} / ${this.lastStep()}`;
      this.panes.forEach((pane) => this.showPane(pane, Math.min(this.step, pane.length)));
    },
    async showPane(pane, step) {
      pane.wanted = step;
      this.facts(pane, step);
      if (!pane.length && !pane.first) return; // not open yet
      const frame = await this.frame(pane, step);
      if (pane.wanted !== step || this.gone) return;
      if (frame.error) { pane.note.textContent = frame.error; return; }
      pane.note.textContent = "";
      pane.image.src = frame.src;
      this.$el.dataset.shown = step;
      for (let next = step + 1; next <= Math.min(step + AHEAD, pane.length); next++) this.frame(pane, next);
    },
    // Frames are loaded ahead and kept, so that going back is immediate.
    frame(pane, number) {
      if (!pane.frames.has(number)) {
        if (pane.wanted === number) pane.note.textContent = "rendering…";
        pane.frames.set(number, new Promise((done) => {
          const image = new Image(), src = `${pane.base}/frames/${number}`;
          image.onload = () => done({ src, image });
          image.onerror = async () => {
            pane.frames.delete(number);
            done({ error: await this.fetch(src).then(() => "the frame cannot be shown", (error) => error.message) });
          };
          image.src = src;
        }));
        if (pane.frames.size > 3000) pane.frames.delete(pane.frames.keys().next().value);
      }
      return pane.frames.get(number);
    },
    async facts(pane, step) {
      const text = (name, value) => { pane.seen[name].textContent = value; };
      text("step", step === 0 ? "reset" : step - 1);
      if (step === 0) {
        for (const name of ["action", "reward", "return so far", "end"]) text(name, "–");
        text("observation", pane.first ?? "–");
        return;
      }
      const row = await this.row(pane, step - 1);
      if (!row || pane.wanted !== step) return;
      text("action", row.actor ? `${row.action}, by ${row.actor.replace(/^(policy:.{8}).*/, "$1")}` : row.action); text("reward", short(row.reward)); text("return so far", short(row.so_far));
      text("end", row.end || "no"); text("observation", row.observation);
    },
    async row(pane, number) {
      if (pane.steps.has(number)) return pane.steps.get(number);
      const first = Math.floor(number / WINDOW) * WINDOW;
      if (!pane.asked.has(first)) {
        pane.asked.add(first);
        try {
          for (const row of await this.fetch(`${pane.base}/steps?first=${first}&last=${first + WINDOW}`)) pane.steps.set(row.number, row);
        } catch (error) { pane.asked.delete(first); pane.note.textContent = error.message; }
        if (pane.wanted - 1 !== number) { this.facts(pane, pane.wanted); return null; }
      }
      return pane.steps.get(number);
    },
  },
};
