// The virtual table of runs: only rows in view exist.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ColumnShape } from "../../api/types";
import { changes } from "../../state/live";
import { go, link } from "../../state/router";
import { useStore } from "../../state/store";
import { useKeys } from "../../ui/keys";
import { narrow } from "../../ui/theme";
import { useRows } from "../../ui/rows";
import { Cell, isNumeric, widthOf } from "./cells";
import type { RunPages } from "./pages";
import { sparkOf, sparksDrawn } from "./sparks";

const ROW = 34, TICK = 44;

export interface Selection { has: (id: string) => boolean; toggle: (ids: readonly string[], on: boolean) => void; size: number }

export function RunTable(props: {
  pages: RunPages; columns: readonly string[]; known: Map<string, ColumnShape>; sort: string; setSort: (sort: string) => void; selection: Selection;
}) {
  const { pages, columns, known, sort, setSort, selection } = props;
  const listing = useStore(pages.listing);
  const change = useStore(changes);
  useStore(sparksDrawn);
  const [now, setNow] = useState(Date.now());
  const [at, setAt] = useState(-1);
  // Keys may come faster than the page is drawn.
  const current = useRef(-1);
  const [anchor, setAnchor] = useState(0);
  const rows = useRows(listing.total, ROW);
  useEffect(() => { if (change.epoch) pages.changed(change.epoch, change.version); }, [pages, change]);
  useEffect(() => pages.need(rows.first, Math.max(rows.last, 1)));
  useEffect(() => { const timer = setInterval(() => setNow(Date.now()), 5000); return () => clearInterval(timer); }, []);
  const isNarrow = useStore(narrow);
  const nameWidth = isNarrow ? 130 : widthOf("name");
  const template = useMemo(() => `${TICK}px ${columns.map((name) => name === "name" ? `minmax(${nameWidth}px, 1fr)` : `${widthOf(name)}px`).join(" ")}`, [columns, nameWidth]);
  const width = TICK + columns.reduce((sum, name) => sum + (name === "name" ? nameWidth : widthOf(name)), 0);
  const move = (to: number) => {
    const next = Math.max(0, Math.min(listing.total - 1, to));
    current.current = next;
    setAt(next);
    rows.show(next);
  };
  const tick = (index: number, range: boolean) => {
    const row = pages.row(index);
    if (!row) return;
    const on = !selection.has(row.id);
    const ids = [];
    for (let one = range ? Math.min(anchor, index) : index; one <= (range ? Math.max(anchor, index) : index); one++) {
      const found = pages.row(one);
      if (found) ids.push(found.id);
    }
    selection.toggle(ids, on);
    setAnchor(index);
  };
  useKeys([
    { key: "j", text: "Next run", act: () => move(current.current + 1) },
    { key: "ArrowDown", text: "Next run", act: () => move(current.current + 1) },
    { key: "k", text: "Previous run", act: () => move(current.current - 1) },
    { key: "ArrowUp", text: "Previous run", act: () => move(current.current - 1) },
    { key: "x", text: "Select the run", act: () => tick(current.current, false) },
    { key: "X", text: "Select from the last one to here", act: () => tick(current.current, true) },
    { key: "Enter", text: "Open the run", act: (event) => {
      if ((event.target as Element).matches("button, a, input")) { (event.target as HTMLElement).click(); return; }
      const row = pages.row(current.current);
      if (row) go(link(["run", row.id]));
    } },
  ]);
  const drawn = [];
  for (let index = rows.first; index < rows.last; index++) {
    const row = pages.row(index);
    drawn.push(
      <div key={row?.id ?? `empty ${index}`} class={`row ${index === at ? "row-at" : ""} ${row && selection.has(row.id) ? "row-on" : ""}`} role="row" aria-rowindex={index + 2}
        aria-selected={row ? selection.has(row.id) : false}
        style={{ transform: `translateY(${rows.top(index)}px)`, gridTemplateColumns: template }} onClick={() => { current.current = index; setAt(index); }}>
        <span role="gridcell" class="tick">{row && <input type="checkbox" aria-label={`Select ${String(row.cells[0])}`} checked={selection.has(row.id)}
          onClick={(event) => { event.preventDefault(); event.stopPropagation(); setTimeout(() => tick(index, event.shiftKey)); }} />}</span>
        {columns.map((name, place) => {
          const column = known.get(name);
          return (
            <span role="gridcell" key={name} class={`cell ${isNumeric(column) ? "cell-number" : ""}`}>
              {row && <Cell column={column} name={name} value={cellOf(columns, row.cells, place)} id={row.id} now={now} spark={name === "spark" ? sparkOf(row.id, row.version) : undefined} />}
            </span>
          );
        })}
      </div>,
    );
  }
  return (
    <div class="table" ref={rows.ref} role="grid" aria-label="Runs" aria-rowcount={listing.total + 1} aria-multiselectable="true" tabIndex={0}>
      <div class="table-head" role="row" aria-rowindex={1} style={{ gridTemplateColumns: template, minWidth: `${width}px` }}>
        <span role="columnheader" class="tick"><span class="visually-hidden">Selected</span></span>
        {columns.map((name) => {
          const column = known.get(name), on = sort === name || sort === `-${name}`, descending = sort.startsWith("-");
          const next = on ? (descending ? name : `-${name}`) : isNumeric(column) ? `-${name}` : name;
          return (
            <span role="columnheader" key={name} class={isNumeric(column) ? "cell-number" : ""} aria-sort={on ? (descending ? "descending" : "ascending") : undefined}>
              {name === "spark" ? <span class="head-text">{column?.label ?? name}</span>
                : <button type="button" class="head-button" onClick={() => setSort(next)} title={`Sort by ${column?.label ?? name}`}>{column?.label ?? name}{on && <span aria-hidden="true">{descending ? " ↓" : " ↑"}</span>}</button>}
            </span>
          );
        })}
      </div>
      <div class="table-body" role="rowgroup" style={{ height: `${rows.height}px`, minWidth: `${width}px` }}>{drawn}</div>
    </div>
  );
}

/** Cells come in the order of the columns that were asked for: all but the sparkline. */
function cellOf(columns: readonly string[], cells: readonly (string | number | boolean | null)[], place: number) {
  const spark = columns.indexOf("spark");
  return cells[spark >= 0 && place > spark ? place - 1 : place];
}
