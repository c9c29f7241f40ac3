// One run: its head, and a tab for each kind of record.
import { useEffect } from "preact/hooks";
import { get } from "../../api/client";
import type { RunDetail, RunShape } from "../../api/types";
import { changes, watch } from "../../state/live";
import { useFetched } from "../../state/query";
import { link, place } from "../../state/router";
import { useStore } from "../../state/store";
import { Note } from "../../ui/controls";
import { useTitle } from "../../ui/title";
import { Charts } from "./charts";
import { Config } from "./config";
import { Episodes } from "./episodes";
import { Files } from "./files";
import { Head } from "./head";
import { Log } from "./log";

const TABS = [["charts", "Charts"], ["log", "Log"], ["episodes", "Episodes"], ["files", "Files"], ["config", "Parameters"], ["attempts", "Attempts"]] as const;

export function RunView({ name }: { name: string }) {
  const tab = useStore(place).query.get("tab") ?? "charts";
  const detail = useFetched(`detail ${name}`, "", (signal) => get<RunDetail>(`/runs/${encodeURIComponent(name)}`, {}, signal));
  const id = detail.data?.run.id ?? "";
  useEffect(() => { if (id) watch([id]); return () => watch([]); }, [id]);
  const change = useStore(changes);
  const [version, filesVersion] = change.runs[id] ?? [0, 0];
  const known = useFetched(id ? `head ${id}` : "", version, (signal) => get<RunShape>(`/runs/${id}/head`, {}, signal));
  const run = known.data ?? detail.data?.run;
  // A new attempt has a command and versions of its own.
  useEffect(() => { if (run && detail.data && run.attempt !== detail.data.run.attempt || run?.ended !== detail.data?.run.ended) detail.again(); }, [run?.attempt, run?.ended]);
  useTitle(run?.name ?? "Run");
  if (!run) return <><h1>Run</h1>{detail.error ? <Note title="This run cannot be shown" bad>{detail.error} <a href={link([])}>All runs</a></Note> : <Note title="Loading…" />}</>;
  const failed = run.state === "failed" ? detail.data?.attempts.findLast((one) => one.outcome || one.stderr_tail) : undefined;
  return (
    <div class="run">
      <Head run={run} />
      {failed && <details class="failure" open><summary>{failed.outcome || run.reason}</summary>{failed.stderr_tail && <pre tabIndex={0}>{failed.stderr_tail}</pre>}</details>}
      <nav class="tabs" aria-label="Records of the run">
        {TABS.map(([key, text]) => <a key={key} href={link(["run", name], { tab: key === "charts" ? "" : key })} aria-current={tab === key ? "page" : undefined}>{text}</a>)}
        <span class="space" />
        <a href={`/run/${run.id}?tab=live`}>Live grid</a>
        {run.mode === "evaluate" && <a href={`/run/${run.id}?tab=evaluations`}>Evaluations</a>}
      </nav>
      {tab === "charts" && <Charts run={run} version={version} />}
      {tab === "log" && <Log run={run} version={version} />}
      {tab === "episodes" && <Episodes run={run} version={version} />}
      {tab === "files" && <Files run={run} version={filesVersion} />}
      {tab === "config" && detail.data && <Config detail={detail.data} />}
      {tab === "attempts" && detail.data && <Attempts detail={detail.data} />}
    </div>
  );
}

function Attempts({ detail }: { detail: RunDetail }) {
  return <>{detail.attempts.toReversed().map((one) => (
    <section class="card" key={one.number}>
      <h2>Attempt {one.number}</h2>
      <dl class="facts">
        <dt>Worker</dt><dd>{one.worker} on {one.host}</dd>
        <dt>Time</dt><dd>{new Date(one.started).toLocaleString()}{one.ended ? ` to ${new Date(one.ended).toLocaleString()}` : ", running"}</dd>
        {one.outcome && <><dt>Outcome</dt><dd>{one.outcome}</dd></>}
        <dt>Command</dt><dd><code>{one.command.join(" ")}</code></dd>
        {Object.entries(one.versions).map(([name, version]) => <><dt>{name}</dt><dd>{version}</dd></>)}
      </dl>
      {one.provenance && <details><summary>Provenance</summary><pre tabIndex={0}>{JSON.stringify(one.provenance, null, 1)}</pre></details>}
      {one.stderr_tail && <pre tabIndex={0}>{one.stderr_tail}</pre>}
    </section>
  ))}</>;
}
