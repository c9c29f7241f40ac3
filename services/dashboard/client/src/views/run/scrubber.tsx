// Episodes replayed step by step, one or two in lock-step: frames with the proof, values and the reward under them.
import { useEffect, useRef, useState } from "preact/hooks";
import { amend, place } from "../../state/router";
import { Button, Choice } from "../../ui/controls";
import { compact } from "../../ui/format";

export interface Played { run: string; episode: string; label: string }
interface About { index: number; env: string; length: number; missing: number; return: number | null; first: string }
interface Step { number: number; action: string; actor: string; reward: number | null; so_far: number | null; end: string; observation: string }
interface Verdict { outcome: "exact" | "diverged" | "stored"; verified: number; text: string; changed: string[] }
interface Pane { base: string; about: About | null; verdict: Verdict | null; problem: string; steps: Map<number, Step> }

const WINDOW = 200, AHEAD = 10, FRAME_MS = 33;
const SPEEDS = [["0.25", "0.25×"], ["0.5", "0.5×"], ["1", "1×"], ["2", "2×"], ["4", "4×"]] as const;

async function json<T>(address: string): Promise<T> {
  const answer = await fetch(address);
  const body = await answer.json().catch(() => ({})) as T & { error?: string };
  if (!answer.ok) throw new Error(body.error ?? `error ${answer.status}`);
  return body;
}

export function Scrubber({ sources }: { sources: readonly Played[] }) {
  const panes = useRef<Pane[]>(sources.map((one) => ({ base: `/api/runs/${encodeURIComponent(one.run)}/episodes/`, about: null, verdict: null, problem: "", steps: new Map() })));
  const [, draw] = useState(0);
  const redraw = () => draw((n) => n + 1);
  const [step, setStep] = useState(Number(place.get().query.get("step") ?? 0));
  const [playing, setPlaying] = useState(false);
  const [speed, setSpeed] = useState("1");
  const last = Math.max(0, ...panes.current.map((pane) => pane.about?.length ?? 0));
  const loaded = useRef(new Map<string, HTMLImageElement>());

  useEffect(() => { panes.current.forEach((pane, at) => void open(pane, sources[at]!.episode, redraw)); }, []);
  useEffect(() => { for (const pane of panes.current) void needSteps(pane, Math.min(step, (pane.about?.length ?? 1) - 1), redraw); });
  useEffect(() => {
    for (const pane of panes.current) {
      if (!pane.about) continue;
      for (let ahead = step; ahead <= Math.min(step + (playing ? AHEAD : 2), pane.about.length); ahead++) preload(loaded.current, `${pane.base}/frames/${ahead}`);
    }
  }, [step, playing, last]);
  useEffect(() => {
    if (!playing) return undefined;
    if (step >= last) { setPlaying(false); return undefined; }
    const ready = panes.current.every((pane) => !pane.about || step >= pane.about.length || loaded.current.get(`${pane.base}/frames/${step + 1}`)?.complete);
    const timer = setTimeout(() => { if (ready) setStep(step + 1); else redraw(); }, FRAME_MS / Number(speed));
    return () => clearTimeout(timer);
  });
  // The step is in the address, but not each one that plays by.
  useEffect(() => { if (!playing && step) { const timer = setTimeout(() => amend({ step: String(step) }), 300); return () => clearTimeout(timer); } return undefined; }, [step, playing]);
  const go = (to: number) => { setPlaying(false); setStep(Math.max(0, Math.min(last, to))); };
  const toggle = () => { if (!playing && step >= last) setStep(0); setPlaying(!playing); };
  return (
    <section class="scrubber" aria-label="Replay" data-shown={step} data-verdict={panes.current[0]?.verdict?.outcome}>
      <div class="stage">{panes.current.map((pane, at) => <PaneView key={at} pane={pane} label={sources[at]!.label} step={step} />)}</div>
      <div class="scrub-bar">
        <Button icon="first" label="First step" act={() => go(0)} />
        <Button icon="left" label="One step back" act={() => go(step - 1)} />
        <Button icon={playing ? "pause" : "play"} label={playing ? "Pause" : "Play"} act={toggle} />
        <Button icon="right" label="One step forward" act={() => go(step + 1)} />
        <Button icon="last" label="Last step" act={() => go(last)} />
        <input type="range" min="0" max={last} value={Math.min(step, last)} aria-label="Step of the episode" onInput={(event) => go(Number(event.currentTarget.value))}
          onKeyDown={(event) => { if (event.key === " ") { event.preventDefault(); toggle(); } }} />
        <span class="where">{step} / {last}</span>
        <Choice label="Speed" value={speed} options={SPEEDS} choose={setSpeed} />
      </div>
    </section>
  );
}

function PaneView({ pane, label, step }: { pane: Pane; label: string; step: number }) {
  const { about, verdict } = pane;
  const [broken, setBroken] = useState("");
  const at = Math.min(step, about?.length ?? 0), values = at ? pane.steps.get(at - 1) : undefined;
  const words = verdict && { exact: `✓ exact: all ${verdict.verified} steps match the record`, diverged: `✗ diverged: ${verdict.text}`, stored: `– not replayed: ${verdict.text}` }[verdict.outcome];
  const source = about ? `${pane.base}/frames/${at}` : "";
  useEffect(() => setBroken(""), [source]);
  return (
    <article class="pane card">
      <div class="pane-head"><h2>{label}{about ? ` · episode ${about.index} · return ${compact(about.return)} · ${about.length} steps` : ""}</h2>
        <span class={`verdict verdict-${verdict?.outcome ?? "none"}`} role="status" title={verdict?.changed.join("\n")}>{pane.problem || words || (about ? "replaying…" : "loading…")}</span></div>
      <div class="pane-body">
        <div class="frame">{source && !broken && <img src={source} alt={`Frame of ${label} at step ${at}`} onError={() => void json(source).then(() => setBroken("The frame cannot be shown."), (error: Error) => setBroken(error.message))} />}{broken && <p>{broken}</p>}</div>
        <dl class="facts">
          <dt>Step</dt><dd>{at}</dd>
          <dt>Action</dt><dd>{values ? values.action : "–"}{values?.actor ? ` (${values.actor})` : ""}</dd>
          <dt>Reward</dt><dd>{values ? compact(values.reward) : "–"}</dd>
          <dt>Return so far</dt><dd>{values ? compact(values.so_far) : "0"}</dd>
          {values?.end && <><dt>End</dt><dd>{values.end}</dd></>}
          <dt>Observation</dt><dd><code>{values ? values.observation : about?.first ?? "–"}</code></dd>
        </dl>
      </div>
      <Rewards pane={pane} step={at} />
    </article>
  );
}

/** The reward of each step around this one. */
function Rewards({ pane, step }: { pane: Pane; step: number }) {
  const length = pane.about?.length ?? 0;
  if (length < 2) return null;
  const first = Math.floor(Math.max(0, step - 1) / WINDOW) * WINDOW, last = Math.min(length, first + WINDOW);
  const values = Array.from({ length: last - first }, (_, at) => pane.steps.get(first + at)?.reward ?? 0);
  const low = Math.min(0, ...values), range = Math.max(0, ...values) - low || 1, wide = 100 / values.length;
  const zero = 30 - ((0 - low) / range) * 28;
  return (
    <svg class="rewards" viewBox="0 0 100 32" preserveAspectRatio="none" role="img" aria-label={`Rewards of steps ${first + 1} to ${last}`}>
      {values.map((value, at) => { const y = 30 - ((value - low) / range) * 28; return <rect key={at} x={at * wide} y={Math.min(y, zero)} width={wide * 0.8} height={Math.max(0.4, Math.abs(zero - y))} class={first + at + 1 === step ? "now" : ""} />; })}
    </svg>
  );
}

async function open(pane: Pane, episode: string, redraw: () => void): Promise<void> {
  try {
    pane.about = await json<About>(pane.base + encodeURIComponent(episode));
    pane.base += pane.about.index;
    redraw();
    pane.verdict = await json<Verdict>(`${pane.base}/verdict`);
  } catch (error) { pane.problem = (error as Error).message; }
  redraw();
}

const asked = new WeakMap<Pane, Set<number>>();

async function needSteps(pane: Pane, step: number, redraw: () => void): Promise<void> {
  if (!pane.about || step < 0) return;
  const first = Math.floor(step / WINDOW) * WINDOW, known = asked.get(pane) ?? new Set<number>();
  asked.set(pane, known);
  if (known.has(first)) return;
  known.add(first);
  try {
    for (const one of await json<Step[]>(`${pane.base}/steps?first=${first}&last=${first + WINDOW}`)) pane.steps.set(one.number, one);
    redraw();
  } catch { setTimeout(() => known.delete(first), 2000); }
}

function preload(loaded: Map<string, HTMLImageElement>, source: string): void {
  if (loaded.has(source)) return;
  const image = new Image();
  image.src = source;
  loaded.set(source, image);
  if (loaded.size > 600) loaded.delete(loaded.keys().next().value!);
}
