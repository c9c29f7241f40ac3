// Episodes of a run by time, return or length, and one of them replayed on top.
import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/client";
import type { EpisodesPage, RunShape } from "../../api/types";
import { session } from "../../state/live";
import { useFetched } from "../../state/query";
import { amend, link, place } from "../../state/router";
import { useStore } from "../../state/store";
import { Button, Choice, Note } from "../../ui/controls";
import { compact, moment, whole } from "../../ui/format";
import { Scrubber } from "./scrubber";

const ORDERS = [["return.down", "Best return"], ["return.up", "Worst return"], ["time.down", "Newest"], ["time.up", "Oldest"], ["length.down", "Longest"], ["length.up", "Shortest"]] as const;

export function Episodes({ run }: { run: RunShape; version: number }) {
  const query = useStore(place).query;
  const order = query.get("order") ?? "return.down", episode = query.get("episode") ?? "";
  const [pages, setPages] = useState([""]);
  const mayRun = useStore(session)?.may_run ?? false;
  const [by, way] = order.split(".");
  useEffect(() => setPages([""]), [order]);
  const { data, error } = useFetched(`episodes ${run.id} ${order} ${pages.at(-1)}`, pages.length > 1 ? "" : run.episodes,
    (signal) => get<EpisodesPage>(`/runs/${run.id}/episodes`, { order: by!, descending: way === "down", page: pages.at(-1)!, count: 25 }, signal));
  const shown = episode || (data?.episodes[0] ? String(data.episodes[0].index) : "");
  return <>
    {shown && <Scrubber key={`${run.id} ${shown}`} sources={[{ run: run.id, episode: shown, label: run.name }]} />}
    <div class="bar">
      <Choice label="Order" value={order} options={ORDERS} choose={(value) => amend({ order: value })} />
      <span class="count" role="status">{data ? `${whole(data.total)} episodes, page ${pages.length}` : "…"}</span>
      <Button icon="left" label="Previous page" act={() => setPages(pages.slice(0, -1))} disabled={pages.length < 2} />
      <Button icon="right" label="Next page" act={() => setPages([...pages, data!.next])} disabled={!data?.next} />
      <span class="space" />
      {mayRun && <a class="button" href={`/run/${run.id}?tab=episodes`}>Go on from here, hand over</a>}
      <a class="button" href={link(["compare"], { run: run.id })}>Two in lock-step</a>
    </div>
    {error && <Note title="The episodes cannot be listed" bad>{error}</Note>}
    {data && !data.episodes.length && <Note title="No episodes yet">Episodes appear here when they end.</Note>}
    {data && data.episodes.length > 0 && (
      <div class="scroll" tabIndex={0} role="region" aria-label="Episodes"><table class="plain">
        <thead><tr><th scope="col">Episode</th><th scope="col" class="cell-number">Return</th><th scope="col" class="cell-number">Steps</th><th scope="col">Ended</th><th scope="col">Slot</th><th scope="col">At</th></tr></thead>
        <tbody>{data.episodes.map((one) => (
          <tr key={`${one.attempt} ${one.index} ${one.agent}`} class={String(one.index) === shown ? "row-on" : ""}>
            <th scope="row"><button type="button" class="button quiet" onClick={() => amend({ episode: String(one.index), step: "" }, false)} aria-pressed={String(one.index) === shown}>▶ {one.index}{one.agent ? ` ${one.agent}` : ""}</button></th>
            <td class="cell-number">{compact(one.value)}</td><td class="cell-number">{one.steps === null ? "–" : whole(one.steps)}</td><td>{one.end}</td><td>{one.slot}</td><td>{moment(one.ended_at)}</td>
          </tr>
        ))}</tbody>
      </table></div>
    )}
  </>;
}
