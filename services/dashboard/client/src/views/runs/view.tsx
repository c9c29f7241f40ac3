// All runs: filter, sort, groups, columns, saved views and actions on the selected.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { ColumnShape, IdsShape } from "../../api/types";
import { changes, session, watch } from "../../state/live";
import { useFetched } from "../../state/query";
import { amend, go, link, place } from "../../state/router";
import { useStore } from "../../state/store";
import { Button, Choice, Note, notify } from "../../ui/controls";
import { whole } from "../../ui/format";
import { useKeys } from "../../ui/keys";
import { narrow } from "../../ui/theme";
import { useTitle } from "../../ui/title";
import { Actions } from "./actions";
import { ColumnDialog, withSpark } from "./columns";
import { Groups } from "./groups";
import { RunPages } from "./pages";
import { RunTable, type Selection } from "./table";
import { SavedViews } from "./saved";
import { columnsStore, DEFAULT_SORT } from "./views";

const PHONE_COLUMNS = ["name", "state", "return"];
const TYPING_MS = 180;
const QUICK = [["", "All"], ["state:active", "Active"], ["state:completed", "Completed"], ["state:failed", "Failed"]] as const;

export function RunsView() {
  const query = useStore(place).query;
  const q = query.get("q") ?? "", sort = query.get("sort") ?? DEFAULT_SORT, by = query.get("by") ?? "";
  const chosen = useStore(columnsStore), isNarrow = useStore(narrow);
  const columns = useMemo(() => isNarrow ? PHONE_COLUMNS : chosen, [isNarrow, chosen]);
  const change = useStore(changes);
  const mayRun = useStore(session)?.may_run ?? false;
  const [choosing, setChoosing] = useState(false);
  const search = useRef<HTMLInputElement>(null);
  const asked = columns.filter((name) => name !== "spark");
  const pages = useMemo(() => new RunPages(q, sort, asked), [q, sort, asked.join(",")]);
  useEffect(() => () => pages.close(), [pages]);
  useEffect(() => watch([]), []);
  useTitle("Runs");
  const listing = useStore(pages.listing);
  const all = useFetched("columns", Math.floor(change.all / 50), (signal) => get<ColumnShape[]>("/runs/columns", {}, signal));
  const known = useMemo(() => new Map(withSpark(all.data ?? []).map((one) => [one.name, one])), [all.data]);
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const selection: Selection = {
    size: selected.size, has: (id) => selected.has(id),
    toggle: (ids, on) => setSelected((old) => { const next = new Set(old); for (const id of ids) { if (on) next.add(id); else next.delete(id); } return next; }),
  };
  const everything = async () => {
    try { setSelected(new Set((await get<IdsShape>("/runs/ids", { q, sort })).ids)); } catch (error) { notify((error as Error).message, true); }
  };
  const choose = (term: string) => amend({ q: q.includes(term) ? q.replace(term, "").trim() : `${q} ${term}`.trim() });
  useKeys([
    { key: "/", text: "Filter the runs", act: () => search.current?.focus() },
    { key: "c", text: "Compare the selected runs", act: () => { if (selected.size) go(link(["compare"], { run: [...selected].slice(0, 64) })); } },
    { key: "Escape", text: "Clear the selection", act: () => setSelected(new Set()) },
  ]);
  const group = known.get(by);
  return (
    <div class="runs">
      <h1 class="visually-hidden">Runs</h1>
      <div class="bar">
        <FilterLine q={q} input={search} />
        <div class="segments" role="group" aria-label="State">
          {QUICK.map(([term, text]) => <button type="button" key={text} aria-pressed={q === term} onClick={() => amend({ q: term })}>{text}</button>)}
        </div>
        <Choice label="Group by" value={by} choose={(value) => amend({ by: value })}
          options={[["", "No groups"], ...["env", "algo", "project", "owner", "runner", "state", "seed"].map((name) => [name, `By ${known.get(name)?.label.toLowerCase() ?? name}`] as const),
            ...[...known.values()].filter((one) => one.group !== "run").map((one) => [one.name, `By ${one.label}`] as const)]} />
        <SavedViews now={{ q, sort, by, columns: chosen }} />
        {!isNarrow && <Button icon="columns" label="Columns" text="Columns" act={() => setChoosing(true)} />}
        <span class="count" role="status">{listing.ready ? (listing.total === listing.all ? `${whole(listing.all)} runs` : `${whole(listing.total)} of ${whole(listing.all)} runs`) : "…"}</span>
        {mayRun && <a class="button primary" href="/new">New run</a>}
      </div>
      {listing.error && <Note title="The runs cannot be listed" bad>{listing.error}</Note>}
      {by && <Groups by={by} q={q} version={change.version} choose={choose} />}
      {by && !group && all.data && <Note title={`No column ${by}`} bad />}
      {selected.size > 0 && <Actions selected={[...selected]} clear={() => setSelected(new Set())} everything={selected.size < listing.total ? () => void everything() : undefined} />}
      {listing.ready && listing.total === 0 && <Note title={listing.all ? "No run matches" : "No runs yet"}>{listing.all ? "Change the filter above." : <>Submit one: <code>runspine train examples/ppo_cartpole.yaml</code>{mayRun && <>, or <a href="/new">fill in a form</a></>}.</>}</Note>}
      <RunTable pages={pages} columns={columns} known={known} sort={sort} setSort={(next) => amend({ sort: next === DEFAULT_SORT ? "" : next })} selection={selection} />
      {choosing && <ColumnDialog columns={[...known.values()]} close={() => setChoosing(false)} />}
    </div>
  );
}

function FilterLine({ q, input }: { q: string; input: { current: HTMLInputElement | null } }) {
  const [text, setText] = useState(q);
  const timer = useRef(0);
  const own = useRef(q);
  // The address changed by something else than typing here.
  if (own.current !== q) { own.current = q; if (text.trim() !== q) setText(q); }
  const type = (value: string) => {
    setText(value);
    clearTimeout(timer.current);
    timer.current = window.setTimeout(() => { own.current = value.trim(); amend({ q: value.trim() }); }, TYPING_MS);
  };
  return (
    <input ref={input} type="search" class="filter" aria-label="Filter the runs" placeholder="Filter: words, state:failed, lr<1e-3, return>200, -label:x" title="Words, or terms: state:failed  lr<1e-3  return>200  env:CartPole*  -owner:ci  duration>1h  submitted>2026-11-01"
      value={text} onInput={(event) => type(event.currentTarget.value)} autocomplete="off" spellcheck={false} />
  );
}
