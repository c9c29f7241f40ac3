// The head of a run: what it is, how far it is, and what can be done with it.
import { useEffect, useState } from "preact/hooks";
import type { RunShape } from "../../api/types";
import { session } from "../../state/live";
import { link } from "../../state/router";
import { useStore } from "../../state/store";
import { Button, State } from "../../ui/controls";
import { compact, span, whole } from "../../ui/format";
import { ActionDialog } from "../runs/actions";

export function Head({ run }: { run: RunShape }) {
  const [open, setOpen] = useState<"" | "cancel" | "label">("");
  const [now, setNow] = useState(Date.now());
  const mayRun = useStore(session)?.may_run ?? false;
  useEffect(() => {
    if (run.ended) return undefined;
    const timer = setInterval(() => setNow(Date.now()), 1000);
    return () => clearInterval(timer);
  }, [run.ended]);
  const seconds = run.started_at ? ((run.ended_at || now) - run.started_at) / 1000 : null;
  const left = !run.ended && run.steps_per_second && run.total ? Math.max(0, (run.total - run.step) / run.steps_per_second) : null;
  const agents = Object.entries(run.agent_returns);
  const figures: [string, string][] = [
    ["Step", run.total ? `${whole(run.step)} / ${compact(run.total)}` : whole(run.step)],
    ["Return", run.mean_return !== null ? compact(run.mean_return) : agents.length ? agents.slice(0, 3).map(([name, value]) => `${name} ${compact(value)}`).join(", ") : "–"],
    ...(run.evaluation !== null ? [["Evaluation", compact(run.evaluation)] as [string, string]] : []),
    ["Steps/s", run.steps_per_second ? compact(Math.round(run.steps_per_second)) : "–"],
    ["Episodes", whole(run.episodes)],
    [run.ended ? "Took" : "Time", span(seconds)],
    ...(left !== null ? [["Left", `about ${span(left)}`] as [string, string]] : []),
  ];
  return (
    <header class="run-head">
      <div class="run-title">
        <h1>{run.name}</h1><State name={run.state} />
        <span class="space" />
        {mayRun && !run.ended && <Button icon="stop" label="Cancel" text="Cancel" act={() => setOpen("cancel")} kind="danger" />}
        {mayRun && <Button icon="tag" label="Label" text="Label" act={() => setOpen("label")} />}
        {mayRun && <a class="button" href={`/new?from=${run.id}`}>Fork</a>}
        <a class="button" href={link(["compare"], { run: run.id })}>Compare</a>
      </div>
      <p class="run-meta">
        {[run.env, run.algo, `seed ${run.seed}`, `runner ${run.runner}`, run.project && `project ${run.project}`, run.owner && `by ${run.owner}`, run.worker && `on ${run.worker}`, run.attempt > 1 && `attempt ${run.attempt}`].filter(Boolean).join(" · ")}
        {run.parent && <> · from <a href={link(["run", run.parent])}>{run.parent.slice(0, 12)}</a></>} · <code>{run.id}</code>
      </p>
      {Object.keys(run.labels).length > 0 && <ul class="labels" aria-label="Labels">{Object.entries(run.labels).map(([key, value]) => <li key={key}><a href={link([], { q: `labels.${key}:"${value}"` })}>{key}: {value}</a></li>)}</ul>}
      {run.reason && <p class="reason">{run.reason}</p>}
      {run.held_back && <p class="reason">Held back: {run.held_back}</p>}
      <dl class="figures">{figures.map(([name, value]) => <div key={name}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
      {run.total > 0 && <progress class={`run-progress state-${run.state}`} max={run.total} value={Math.min(run.step, run.total)} aria-label="Steps done" />}
      {run.notes && <p class="notes">{run.notes}</p>}
      {open && <ActionDialog action={open} runs={[run.id]} close={() => setOpen("")} />}
    </header>
  );
}
