// What was asked for: every value of the spec, and the run file that would submit it again.
import { useState } from "preact/hooks";
import type { RunDetail } from "../../api/types";
import { Button, notify } from "../../ui/controls";

export function Config({ detail }: { detail: RunDetail }) {
  const [wanted, setWanted] = useState("");
  const rows = detail.spec.filter((row) => row.join(" ").toLowerCase().includes(wanted.toLowerCase()));
  const copy = () => void navigator.clipboard.writeText(detail.spec_yaml).then(() => notify("Copied."), () => notify("The browser does not allow copying here.", true));
  return (
    <div class="two">
      <section class="card">
        <h2>Values</h2>
        <input type="search" class="filter" aria-label="Filter the values" placeholder="Filter the values" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        <table class="plain"><thead><tr><th scope="col">Path</th><th scope="col">Value</th></tr></thead>
          <tbody>{rows.map(([path, value]) => <tr key={path}><th scope="row">{path}</th><td><code>{value}</code></td></tr>)}</tbody></table>
      </section>
      <section class="card">
        <div class="card-head"><h2>Run file</h2><Button label="Copy" text="Copy" act={copy} /></div>
        <pre tabIndex={0}>{detail.spec_yaml}</pre>
      </section>
    </div>
  );
}
