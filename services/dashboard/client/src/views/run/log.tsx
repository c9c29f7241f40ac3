// The log as a virtual list: lines are fetched by their numbers when they come into view.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { LogHits, LogLineShape, LogRange, RunShape } from "../../api/types";
import { amend, place } from "../../state/router";
import { kept, Store, useStore } from "../../state/store";
import { folded, pieces } from "../../ui/ansi";
import { Button, Check, Choice, Note } from "../../ui/controls";
import { count, whole } from "../../ui/format";
import { useRows } from "../../ui/rows";

const PIECE = 200, ROW = 20, MAX_PIECES = 60, FOLLOW_MS = 700, TRY_AGAIN_MS = 2_000;
const showTimes = kept("log.times", true);

/** Lines of one attempt, in pieces; the least recently needed are forgotten. */
class LogPages {
  readonly state = new Store({ lines: 0, attempts: [] as { attempt: number; lines: number }[], error: "", ready: false, drawn: 0 });
  private pieces = new Map<number, { lines: Map<number, LogLineShape>; whole: boolean; asked: boolean }>();
  private closed = new AbortController();
  constructor(private run: string, readonly attempt: number) {}

  close(): void { this.closed.abort(); }

  line(number: number): LogLineShape | undefined { return this.pieces.get(Math.floor((number - 1) / PIECE))?.lines.get(number); }

  /** How many lines there are now. */
  async count(): Promise<void> {
    try {
      this.took(await get<LogRange>(`/runs/${this.run}/log`, { attempt: this.attempt, count: 0 }, this.closed.signal));
    } catch (error) { this.failed(error as Error); }
  }

  need(first: number, last: number): void {
    for (let at = Math.floor((Math.max(1, first) - 1) / PIECE); at <= Math.floor((Math.max(1, last) - 1) / PIECE); at++) {
      const piece = this.pieces.get(at);
      const due = Math.min(PIECE, this.state.get().lines - at * PIECE);
      if (due > 0 && (!piece || (!piece.asked && !piece.whole && piece.lines.size < due))) void this.fetch(at);
    }
  }

  private async fetch(at: number): Promise<void> {
    const piece = this.pieces.get(at) ?? { lines: new Map<number, LogLineShape>(), whole: false, asked: false };
    piece.asked = true;
    this.pieces.delete(at);
    this.pieces.set(at, piece);
    while (this.pieces.size > MAX_PIECES) this.pieces.delete(this.pieces.keys().next().value!);
    // Long lines come in several answers: the next one begins where the last ended.
    const first = at * PIECE + 1, from = first + piece.lines.size;
    try {
      const found = await get<LogRange>(`/runs/${this.run}/log`, { attempt: this.attempt, first: from, count: PIECE - (from - first) }, this.closed.signal);
      for (const line of found.lines) piece.lines.set(line.number, line);
      piece.whole = piece.lines.size >= PIECE;
      this.took(found);
    } catch (error) {
      this.failed(error as Error);
      await new Promise((done) => setTimeout(done, TRY_AGAIN_MS));
    }
    piece.asked = false;
    this.state.set({ ...this.state.get(), drawn: this.state.get().drawn + 1 });
  }

  private took(found: LogRange): void {
    const newest = found.attempts.at(-1)?.attempt ?? 1;
    const own = found.attempts.find((one) => one.attempt === (this.attempt || newest));
    this.state.set({ lines: own?.lines ?? 0, attempts: found.attempts, error: "", ready: true, drawn: this.state.get().drawn + 1 });
  }

  private failed(error: Error): void {
    if (!this.closed.signal.aborted) this.state.set({ ...this.state.get(), error: error.message });
  }
}

export function Log({ run, version }: { run: RunShape; version: number }) {
  const query = useStore(place).query;
  const attempt = Number(query.get("attempt") ?? 0), target = Number(query.get("line") ?? 0);
  const pages = useMemo(() => new LogPages(run.id, attempt), [run.id, attempt]);
  const state = useStore(pages.state);
  const times = useStore(showTimes);
  const rows = useRows(state.lines, ROW);
  const [follow, setFollow] = useState(!target);
  const [hits, setHits] = useState<LogHits | null>(null);
  const marked = useRef<[LogPages | null, number]>([null, 0]);
  useEffect(() => { void pages.count(); return () => pages.close(); }, [pages]);
  // The number of lines grows while the run trains; the last ones may come after its end.
  useEffect(() => { const timer = setTimeout(() => void pages.count(), FOLLOW_MS); return () => clearTimeout(timer); }, [pages, version]);
  useEffect(() => { pages.need(rows.first + 1, rows.last); });
  useEffect(() => { if (follow && state.lines) rows.show(state.lines - 1); }, [state.lines, follow, rows.height]);
  useEffect(() => { if (target && state.lines && (marked.current[0] !== pages || marked.current[1] !== target)) { marked.current = [pages, target]; rows.show(Math.min(state.lines, target + 8) - 1); rows.show(Math.max(0, target - 8)); } }, [pages, target, state.lines]);
  const jump = (number: number) => { setFollow(false); amend({ line: String(number) }); };
  const shown = [];
  for (let index = rows.first; index < rows.last; index++) {
    const line = pages.line(index + 1);
    shown.push(
      <div key={index} class={`line line-${line?.source ?? "none"} ${index + 1 === target ? "line-target" : ""}`} style={{ transform: `translateY(${rows.top(index)}px)` }}>
        <button type="button" class="line-number" tabIndex={-1} onClick={() => jump(index + 1)} title="Put this line in the address">{index + 1}</button>
        {times && <time>{line ? new Date(line.at).toLocaleTimeString("en-GB") : ""}</time>}
        <span class="line-text">{line && <LineText text={line.text} />}</span>
      </div>,
    );
  }
  return (
    <div class="log-view">
      <div class="bar">
        <LogSearch run={run.id} found={setHits} />
        <JumpTo lines={state.lines} jump={jump} />
        {state.attempts.length > 1 && <Choice label="Attempt" value={String(attempt || state.attempts.at(-1)!.attempt)} choose={(value) => amend({ attempt: value, line: "" })}
          options={state.attempts.map((one) => [String(one.attempt), `Attempt ${one.attempt}: ${count(one.lines, "line")}`] as const)} />}
        <Check label="Follow" checked={follow} change={setFollow} />
        <Check label="Times" checked={times} change={(on) => showTimes.set(on)} />
        <span class="count" role="status">{state.ready ? count(state.lines, "line") : "…"}</span>
      </div>
      {hits && <Hits hits={hits} jump={(line) => { if (line.attempt !== (attempt || state.attempts.at(-1)?.attempt)) amend({ attempt: String(line.attempt) }); jump(line.number); }} close={() => setHits(null)} />}
      {state.error && <Note title="The log cannot be loaded" bad>{state.error}</Note>}
      {state.ready && !state.lines && <Note title="No lines yet">What the trainer prints appears here.</Note>}
      <div class="log" ref={rows.ref} tabIndex={0} role="log" aria-live="off" aria-label="Log" onWheel={(event) => { if (event.deltaY < 0) setFollow(false); }}
        onKeyDown={(event) => { if (["ArrowUp", "PageUp", "Home"].includes(event.key)) setFollow(false); if (event.key === "End") setFollow(true); }}>
        <div class="log-body" style={{ height: `${rows.height}px` }}>{shown}</div>
      </div>
    </div>
  );
}

function LineText({ text }: { text: string }) {
  return <>{pieces(folded(text)).map((piece, at) => piece.style ? <span key={at} class={piece.style}>{piece.text}</span> : piece.text)}</>;
}

function LogSearch({ run, found }: { run: string; found: (hits: LogHits | null) => void }) {
  const [text, setText] = useState("");
  const [regular, setRegular] = useState(false);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);
  const search = async (event: Event) => {
    event.preventDefault();
    setError("");
    if (!text) { found(null); return; }
    setBusy(true);
    try { found(await get<LogHits>(`/runs/${run}/log/search`, { text, regular })); } catch (failure) { setError((failure as Error).message); }
    setBusy(false);
  };
  return (
    <form class="inline" role="search" onSubmit={(event) => void search(event)}>
      <input type="search" class="filter filter-short" aria-label="Search all lines" placeholder="Search all lines" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <Check label=".*" checked={regular} change={setRegular} />
      <button type="submit" class="button" disabled={busy}>{busy ? "Searching…" : "Search"}</button>
      {error && <span class="bad" role="alert">{error}</span>}
    </form>
  );
}

function JumpTo({ lines, jump }: { lines: number; jump: (number: number) => void }) {
  const [text, setText] = useState("");
  return (
    <form class="inline" onSubmit={(event) => { event.preventDefault(); const number = Number(text); if (number >= 1) jump(Math.min(lines, Math.floor(number))); }}>
      <input type="number" class="filter filter-number" min="1" max={Math.max(1, lines)} aria-label="Go to line" placeholder="Line" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <button type="submit" class="button">Go</button>
    </form>
  );
}

function Hits({ hits, jump, close }: { hits: LogHits; jump: (line: LogLineShape) => void; close: () => void }) {
  return (
    <section class="hits" aria-label="Lines found">
      <div class="hits-head"><strong>{count(hits.lines.length, "line")} found{hits.more ? ` (the first ${whole(hits.lines.length)})` : ""}</strong><Button icon="close" label="Close the search" act={close} kind="quiet" /></div>
      <ol tabIndex={0} aria-label="Hits">{hits.lines.map((line) => <li key={`${line.attempt} ${line.number}`}><button type="button" onClick={() => jump(line)}><span class="faint">{line.number}</span> <LineText text={line.text} /></button></li>)}</ol>
    </section>
  );
}
