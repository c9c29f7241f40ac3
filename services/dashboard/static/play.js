// Player of a play session: the env's frames, its keys, the actor and the pace.
// Key presses and releases go to the session; the next frame shows their effect.
const RATES = [1, 2, 4, 5, 8, 10, 15, 20, 25, 30, 40, 50, 60, 100], HUMAN = "human", STEP = ".";
const SHOWN = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "space" };
const make = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};
const short = (value) => (value === null || value === undefined ? "–" : String(+Number(value).toPrecision(5)));
const nameOf = (actor) => { const [kind, digest] = actor.split(":"); return digest ? `${kind} ${digest.slice(0, 8)}` : kind; };

export default {
  template: '<div class="rs-play"></div>',
  props: { run: String, title: String, phase: String, ended: Boolean, trouble: String, may: Boolean, actors: Array },
  mounted() {
    // Larger than any input number of an earlier page.
    this.number = Date.now() * 1000; this.sent = new Map(); this.waits = []; this.held = new Set(); this.hud = null;
    this.build();
    this.beat = setInterval(() => this.sendRequest(), 1000);
    this.onHidden = () => { this.releaseKeys(); this.sendRequest(); };
    this.onBlur = () => this.releaseKeys();
    document.addEventListener("visibilitychange", this.onHidden);
    window.addEventListener("blur", this.onBlur);
    this.open();
  },
  beforeUnmount() {
    this.gone = true;
    clearInterval(this.beat); clearTimeout(this.again);
    document.removeEventListener("visibilitychange", this.onHidden);
    window.removeEventListener("blur", this.onBlur);
    if (this.socket) this.socket.close();
  },
  watch: { phase() { this.updateState(); }, trouble() { this.updateState(); this.open(); }, actors() { this.updateActors(); } },
  methods: {
    build() {
      this.top = make("div", "rs-play-top");
      this.who = make("span", "rs-play-who"); this.who.setAttribute("role", "status");
      this.figures = make("span", "rs-play-figures");
      this.top.append(this.who, this.figures);
      this.stage = make("div", "rs-play-stage"); this.stage.tabIndex = 0;
      this.stage.setAttribute("role", "application");
      this.canvas = make("canvas", "rs-play-canvas");
      this.words = make("div", "rs-play-words");
      this.stage.append(this.canvas, this.words);
      this.keys = make("div", "rs-play-keys");
      this.notice = make("div", "rs-play-notice"); this.notice.setAttribute("role", "status");
      this.bar = make("div", "rs-controls rs-play-bar");
      const body = make("div", "rs-play-body"), side = make("div", "rs-play-side");
      side.append(this.keys, this.bar, this.notice);
      body.append(this.stage, side);
      this.$el.append(this.top, body);
      if (this.may) this.buildBar();
      else this.bar.append(make("span", "rs-quiet", "Watching only: this token is read-only."));
      this.$el.addEventListener("keydown", (event) => this.press(event, true));
      this.$el.addEventListener("keyup", (event) => this.press(event, false));
      this.stage.addEventListener("blur", () => this.releaseKeys());
      this.stage.addEventListener("pointerdown", () => this.stage.focus());
      this.updateState();
    },
    buildBar() {
      const button = (icon, label, act) => {
        const made = make("button", "rs-control rs-play-button");
        made.type = "button"; made.append(make("i", "material-icons", icon), make("span", "", label));
        made.firstChild.setAttribute("aria-hidden", "true");
        made.addEventListener("click", act); this.bar.append(made);
        return made;
      };
      this.swap = button("swap_horiz", "Hand over", () => this.handOver());
      this.swap.classList.add("rs-play-swap");
      this.other = make("select", "rs-speed rs-play-actors"); this.other.setAttribute("aria-label", "Actor to hand over to");
      this.other.addEventListener("change", () => { if (this.hud && this.hud.actor !== HUMAN) this.steer({ actor: this.other.value }); this.updateLabels(); });
      this.bar.append(this.other);
      this.pauseButton = button("pause", "Pause", () => this.steer({ pace: { paused: !this.paused() } }));
      this.stepButton = button("skip_next", "Step", () => this.tap(STEP));
      button("restart_alt", "New episode", () => { this.steer({ pace: { reset: true } }); this.stage.focus(); });
      const pace = this.pace = make("select", "rs-speed"); pace.setAttribute("aria-label", "Steps per second");
      for (const rate of RATES) { const option = make("option", "", `${rate} steps/s`); option.value = rate; pace.append(option); }
      pace.addEventListener("change", () => this.steer({ pace: { steps_per_second: Number(pace.value) } }));
      const turns = make("label", "rs-play-turns"), box = this.turns = make("input");
      box.type = "checkbox";
      box.addEventListener("change", () => { this.steer({ pace: { turn_based: box.checked } }); this.stage.focus(); });
      turns.append(box, make("span", "", "wait for each key"));
      this.bar.append(pace, turns);
      this.updateActors();
    },
    updateActors() {
      if (!this.other) return;
      const before = this.other.value;
      this.other.replaceChildren(...this.actors.filter((actor) => actor.name !== HUMAN).map((actor) => {
        const option = make("option", "", actor.title); option.value = actor.name; return option;
      }));
      if (before) this.other.value = before;
      this.updateLabels();
    },
    // Button labels follow the state of the session.
    updateLabels() {
      if (!this.swap) return;
      const person = !this.hud || this.hud.actor === HUMAN;
      this.swap.lastChild.textContent = person ? "Hand over" : "Take back";
      this.swap.dataset.acts = this.hud ? this.hud.actor : "";
      const paused = this.paused();
      this.pauseButton.firstChild.textContent = paused ? "play_arrow" : "pause";
      this.pauseButton.lastChild.textContent = paused ? "Resume" : "Pause";
      this.stepButton.disabled = person;
      if (this.hud && document.activeElement !== this.pace) {
        const rate = String(+Number(this.hud.pace).toPrecision(3));
        if (![...this.pace.options].some((option) => option.value === rate)) { const own = make("option", "", `${rate} steps/s`); own.value = rate; this.pace.append(own); }
        this.pace.value = rate;
      }
      if (this.hud && document.activeElement !== this.turns) this.turns.checked = this.hud.turn_based;
      if (!person && [...this.other.options].some((option) => option.value === this.hud.actor) && document.activeElement !== this.other) this.other.value = this.hud.actor;
    },
    paused() { return Boolean(this.hud && this.hud.paused); },
    handOver() {
      const person = !this.hud || this.hud.actor === HUMAN;
      this.steer({ actor: person ? this.other.value : HUMAN });
      this.stage.focus();
    },
    updateState(lost) {
      if (lost !== undefined) this.lost = lost;
      const message = this.trouble || (this.ended && `The session is ${this.phase}. Its episodes can be replayed exactly.`) || this.lost
        || (!this.hud && (this.phase === "running" ? "Creating the env…" : `The session is ${this.phase}.`)) || "";
      this.words.textContent = message;
      this.$el.dataset.state = message ? (this.ended ? "ended" : "waiting") : "live";
    },
    open() {
      if (this.gone || this.trouble || this.socket || this.ended) return;
      const socket = new WebSocket(`${window.location.origin.replace(/^http/, "ws")}/api/runs/${encodeURIComponent(this.run)}/live`);
      socket.binaryType = "arraybuffer";
      socket.onopen = () => { this.updateState(""); this.sendRequest(); };
      socket.onmessage = (event) => (typeof event.data === "string" ? this.receive(JSON.parse(event.data)) : this.takeFrame(event.data));
      socket.onclose = (event) => {
        this.socket = null;
        if (this.gone) return;
        this.updateState(event.reason || "Connection lost; reconnecting…");
        if (event.code !== 4401 && event.code !== 4404) this.again = setTimeout(() => this.open(), 1000);
      };
      this.socket = socket;
    },
    send(message) { if (this.socket && this.socket.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message)); },
    steer(message) { this.send({ steer: message }); },
    sendRequest() {
      const width = Math.max(64, Math.min(1280, Math.round(this.stage.clientWidth * Math.min(2, window.devicePixelRatio || 1))));
      this.send({ look: document.hidden || this.ended || !this.$el.offsetParent ? null : { fps: 30, width, slots: [0] } });
    },
    receive(message) {
      if (message.round) { const round = message.round; Promise.resolve(this.drawing).then(() => this.send({ seen: round })); }
      if (message.refused) this.notice.textContent = message.refused;
    },
    takeFrame(data) {
      const length = new DataView(data).getUint32(0, true);
      const header = JSON.parse(new TextDecoder().decode(new Uint8Array(data, 4, length)));
      if (header.slot !== 0) return;
      this.hud = header.hud;
      this.measure(header.hud.input);
      this.updateHud(header.hud);
      if (header.trouble) { this.words.textContent = header.trouble; return; }
      this.drawing = createImageBitmap(new Blob([new Uint8Array(data, 4 + length)], { type: "image/jpeg" })).then((bitmap) => {
        if (this.canvas.width !== bitmap.width || this.canvas.height !== bitmap.height) { this.canvas.width = bitmap.width; this.canvas.height = bitmap.height; }
        this.canvas.getContext("2d").drawImage(bitmap, 0, 0);
        bitmap.close();
        this.$el.dataset.frames = Number(this.$el.dataset.frames || 0) + 1;
      }, () => {});
      this.updateState("");
    },
    // Latency from the key to the frame of its step.
    measure(input) {
      for (const [number, at] of this.sent) {
        if (number > input) continue;
        this.waits.push(performance.now() - at);
        this.sent.delete(number);
      }
      while (this.waits.length > 500) this.waits.shift();
      this.$el.dataset.waits = JSON.stringify(this.waits.map((each) => Math.round(each * 10) / 10));
    },
    updateHud(hud) {
      const person = hud.actor === HUMAN;
      this.who.textContent = hud.waiting ? (person ? "your turn" : "paused") : person ? "human acts" : `${nameOf(hud.actor)} acts`;
      this.who.classList.toggle("rs-play-yours", hud.waiting && person);
      Object.assign(this.$el.dataset, { actor: hud.actor, waiting: hud.waiting, step: hud.episode_step, episode: hud.episode, value: hud.episode_return });
      const sorted = [...this.waits].sort((a, b) => a - b), middle = sorted[Math.floor(sorted.length / 2)];
      const words = [`episode ${hud.episode.split("-")[1] ?? hud.episode}`, `step ${hud.episode_step}`, `return ${short(hud.episode_return)}`];
      if (middle !== undefined) words.push(`key → step ${Math.round(middle)} ms`);
      this.figures.textContent = words.join("  ·  ");
      if (this.notice.textContent !== hud.notice) this.notice.textContent = hud.notice;
      this.notice.classList.toggle("rs-bad", hud.notice.includes("does not take over"));
      this.updateKeys(hud.keys);
      this.updateLabels();
    },
    updateKeys(keys) {
      const content = JSON.stringify(keys);
      if (content === this.shownKeys) return;
      this.shownKeys = content;
      this.known = new Set(keys.map((each) => each.key));
      this.releaseKeys();
      this.keys.replaceChildren(...keys.map(({ key, action }) => {
        const made = make("button", "rs-key"); made.type = "button"; made.disabled = !this.may; made.dataset.key = key;
        made.append(make("kbd", "", SHOWN[key] || key), make("span", "", action));
        made.setAttribute("aria-label", `${action}, key ${SHOWN[key] || key}`);
        made.addEventListener("pointerdown", (event) => { event.preventDefault(); this.stage.focus(); this.hold(key, true); });
        for (const end of ["pointerup", "pointerleave", "pointercancel"]) made.addEventListener(end, () => this.hold(key, false));
        // Enter and space on the button itself; a pointer's press was sent on pointerdown.
        made.addEventListener("click", (event) => { if (event.detail === 0) this.tap(key); });
        return made;
      }));
      const words = keys.map(({ key, action }) => `${SHOWN[key] || key}: ${action}`).join(", ");
      this.stage.setAttribute("aria-label", words ? `The env. Keys: ${words}` : "The env, controlled by another actor");
    },
    press(event, down) {
      if (!this.may || event.ctrlKey || event.metaKey || event.altKey) return;
      const tag = event.target.tagName;
      if (tag === "SELECT" || tag === "INPUT" || (tag === "BUTTON" && [" ", "Enter"].includes(event.key))) return;
      const key = this.known && this.known.has(event.key) ? event.key : event.key.toLowerCase();
      const known = (this.known && this.known.has(key)) || key === STEP;
      if (!known) return;
      event.preventDefault();
      if (!event.repeat) this.hold(key, down);
    },
    hold(key, down) {
      if (!this.may || this.held.has(key) === down) return;
      if (down) this.held.add(key); else this.held.delete(key);
      for (const each of this.keys.children) if (each.dataset.key === key) each.classList.toggle("rs-key-held", down);
      this.number += 1;
      if (down && key !== STEP) this.sent.set(this.number, performance.now());
      this.steer({ input: { key, number: this.number, down } });
    },
    tap(key) { this.hold(key, true); this.hold(key, false); },
    releaseKeys() { for (const key of [...this.held]) this.hold(key, false); },
  },
};
