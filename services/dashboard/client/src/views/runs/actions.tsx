// Actions on the selected runs. They say how many, do them, and report what was refused.
import { useState } from "preact/hooks";
import { lines } from "../../api/client";
import type { ActionProgress, ActionRequest } from "../../api/types";
import { go, link } from "../../state/router";
import { useStore } from "../../state/store";
import { session } from "../../state/live";
import { Button, Dialog, notify } from "../../ui/controls";
import { count, whole } from "../../ui/format";

const MAX_COMPARED = 64, MAX_REASONS = 20;

export function Actions({ selected, clear, everything }: { selected: readonly string[]; clear: () => void; everything: (() => void) | undefined }) {
  const [open, setOpen] = useState<"" | "cancel" | "label" | "priority">("");
  const mayRun = useStore(session)?.may_run ?? false;
  const compare = () => {
    if (selected.length > MAX_COMPARED) { notify(`${count(selected.length, "run")} cannot be compared at once; select at most ${MAX_COMPARED}.`, true); return; }
    go(link(["compare"], { run: selected }));
  };
  return (
    <div class="actions" role="region" aria-label="Selected runs">
      <strong>{count(selected.length, "run")} selected</strong>
      {everything && <Button label="Select all" text="Select all that match" act={everything} kind="quiet" />}
      <Button icon="compare" label="Compare" text="Compare" act={compare} />
      {mayRun && <Button icon="tag" label="Label" text="Label" act={() => setOpen("label")} />}
      {mayRun && <Button icon="up" label="Priority" text="Priority" act={() => setOpen("priority")} />}
      {mayRun && <Button icon="stop" label="Cancel" text="Cancel" act={() => setOpen("cancel")} kind="danger" />}
      <Button icon="close" label="Clear the selection" act={clear} kind="quiet" />
      {open && <ActionDialog action={open} runs={selected} close={() => setOpen("")} />}
    </div>
  );
}

const TITLES = { cancel: "Cancel", label: "Label", priority: "Set the priority of" };

export function ActionDialog({ action, runs, close }: { action: "cancel" | "label" | "priority"; runs: readonly string[]; close: () => void }) {
  const [first, setFirst] = useState(action === "priority" ? "50" : "");
  const [second, setSecond] = useState("");
  const [progress, setProgress] = useState<ActionProgress | null>(null);
  const [refused, setRefused] = useState<string[][]>([]);
  const [error, setError] = useState("");
  const many = count(runs.length, "run");
  const run = async (event: Event) => {
    event.preventDefault();
    const request: ActionRequest = { action, runs: [...runs] };
    if (action === "cancel") request.reason = first;
    if (action === "label") request.labels = { [first]: second };
    if (action === "priority") request.priority = Number(first);
    setError("");
    setProgress({ done: 0, of: runs.length, refused: [], finished: false });
    try {
      let bad: string[][] = [];
      await lines<ActionProgress>("/runs/actions", request, (line) => {
        bad = [...bad, ...line.refused];
        setProgress(line);
        setRefused(bad);
        if (line.finished && !bad.length) { notify(`Done: ${many}.`); close(); }
      });
    } catch (failure) {
      setError((failure as Error).message);
      setProgress(null);
    }
  };
  const busy = progress !== null && !progress.finished;
  return (
    <Dialog title={`${TITLES[action]} ${many}`} close={close}>
      <form onSubmit={(event) => void run(event)}>
        {action === "cancel" && <label class="field">Reason (stored in the log)<input value={first} onInput={(e) => setFirst(e.currentTarget.value)} autofocus /></label>}
        {action === "label" && <>
          <label class="field">Label<input value={first} required onInput={(e) => setFirst(e.currentTarget.value)} autofocus /></label>
          <label class="field">Value (an empty one removes it)<input value={second} onInput={(e) => setSecond(e.currentTarget.value)} /></label>
        </>}
        {action === "priority" && <label class="field">Priority, 0 (last) to 100 (first)<input type="number" min="0" max="100" required value={first} onInput={(e) => setFirst(e.currentTarget.value)} autofocus /></label>}
        {progress && <div role="status"><progress max={progress.of} value={progress.done} aria-label="Runs done" /> {whole(progress.done)} of {many}{refused.length ? `, ${whole(refused.length)} refused` : ""}</div>}
        {refused.length > 0 && <ul class="refused">{refused.slice(0, MAX_REASONS).map(([id, why]) => <li key={id}><code>{id}</code> {why}</li>)}{refused.length > MAX_REASONS && <li>and {whole(refused.length - MAX_REASONS)} more</li>}</ul>}
        {error && <p class="bad" role="alert">{error}</p>}
        <div class="dialog-foot">
          <Button label="Back" text={progress?.finished ? "Close" : "Back"} act={close} kind="quiet" />
          {!progress?.finished && <button type="submit" class={`button ${action === "cancel" ? "danger" : "primary"}`} disabled={busy}>{TITLES[action]} {many}</button>}
        </div>
      </form>
    </Dialog>
  );
}
