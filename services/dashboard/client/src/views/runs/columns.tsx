// The column chooser: which columns the list shows, and in which order.
import { useState } from "preact/hooks";
import type { ColumnShape } from "../../api/types";
import { useStore } from "../../state/store";
import { Button, Dialog } from "../../ui/controls";
import { columnsStore, DEFAULT_COLUMNS } from "./views";

const SPARK: ColumnShape = { name: "spark", label: "Return by step", kind: "spark", group: "run" };

export function withSpark(columns: readonly ColumnShape[]): ColumnShape[] { return [...columns, SPARK]; }

export function ColumnDialog({ columns, close }: { columns: readonly ColumnShape[]; close: () => void }) {
  const chosen = useStore(columnsStore);
  const [wanted, setWanted] = useState("");
  const known = new Map(columns.map((one) => [one.name, one]));
  const shown = columns.filter((one) => `${one.group} ${one.label} ${one.name}`.toLowerCase().includes(wanted.toLowerCase()));
  const toggle = (name: string) => columnsStore.set(chosen.includes(name) ? chosen.filter((one) => one !== name) : [...chosen, name]);
  const move = (at: number, by: number) => {
    const next = [...chosen];
    [next[at], next[at + by]] = [next[at + by]!, next[at]!];
    columnsStore.set(next);
  };
  return (
    <Dialog title="Columns" close={close}>
      <div class="column-chooser">
        <div>
          <label class="field">Find a column, parameter or label<input value={wanted} onInput={(e) => setWanted(e.currentTarget.value)} autofocus /></label>
          <ul class="column-list" tabIndex={0} aria-label="All columns">
            {["run", "params", "labels"].map((group) => shown.some((one) => one.group === group) && (
              <li key={group}><h3>{{ run: "Run", params: "Parameters", labels: "Labels" }[group]}</h3><ul>
                {shown.filter((one) => one.group === group).map((one) => (
                  <li key={one.name}><label class="check"><input type="checkbox" checked={chosen.includes(one.name)} disabled={one.name === "name"} onChange={() => toggle(one.name)} />{one.label}</label></li>
                ))}
              </ul></li>
            ))}
          </ul>
        </div>
        <div>
          <h3>In this order</h3>
          <ol class="column-order">
            {chosen.map((name, at) => (
              <li key={name}><span>{known.get(name)?.label ?? name}</span>
                <Button icon="up" label={`Move ${name} up`} act={() => move(at, -1)} disabled={at < 2} kind="quiet" />
                <Button icon="down" label={`Move ${name} down`} act={() => move(at, 1)} disabled={at === 0 || at === chosen.length - 1} kind="quiet" />
                <Button icon="close" label={`Remove ${name}`} act={() => toggle(name)} disabled={name === "name"} kind="quiet" /></li>
            ))}
          </ol>
          <Button label="Default columns" text="Default columns" act={() => columnsStore.set(DEFAULT_COLUMNS)} kind="quiet" />
        </div>
      </div>
    </Dialog>
  );
}
