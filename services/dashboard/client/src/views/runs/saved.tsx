// Saved views of the list.
import { useState } from "preact/hooks";
import { amend } from "../../state/router";
import { useStore } from "../../state/store";
import { Button, Dialog, notify } from "../../ui/controls";
import { columnsStore, savedViews, type SavedView } from "./views";

export function SavedViews({ now }: { now: Omit<SavedView, "name"> }) {
  const views = useStore(savedViews);
  const [open, setOpen] = useState(false);
  const [name, setName] = useState("");
  const show = (view: SavedView) => {
    columnsStore.set(view.columns);
    amend({ q: view.q, sort: view.sort, by: view.by }, false);
    setOpen(false);
  };
  const save = (event: Event) => {
    event.preventDefault();
    savedViews.set([...views.filter((one) => one.name !== name), { name, ...now, columns: [...now.columns] }]);
    notify(`Saved the view ${name}.`);
    setName("");
  };
  return <>
    <Button icon="save" label="Views" text="Views" act={() => setOpen(true)} />
    {open && (
      <Dialog title="Views" close={() => setOpen(false)}>
        <p>A view is a filter, a sort, groups and columns. This browser keeps it; its address can be shared.</p>
        <ul class="views">
          {views.map((view) => (
            <li key={view.name}><button type="button" class="button quiet" onClick={() => show(view)}><strong>{view.name}</strong><code>{view.q || "all runs"}</code></button>
              <Button icon="close" label={`Remove ${view.name}`} act={() => savedViews.set(views.filter((one) => one !== view))} kind="quiet" /></li>
          ))}
          {!views.length && <li class="faint">None yet.</li>}
        </ul>
        <form class="inline" onSubmit={save}>
          <label class="field">Save what is shown now as<input value={name} required maxLength={60} onInput={(event) => setName(event.currentTarget.value)} /></label>
          <button type="submit" class="button primary">Save</button>
        </form>
      </Dialog>
    )}
  </>;
}
