// Artifacts of a run, with their integrity; the list follows the log.
import { get } from "../../api/client";
import type { FilesShape, RunShape } from "../../api/types";
import { useFetched } from "../../state/query";
import { Note } from "../../ui/controls";
import { ago, bytes, count, moment, whole } from "../../ui/format";

export function Files({ run, version }: { run: RunShape; version: number }) {
  const { data, error } = useFetched(`files ${run.id}`, version, (signal) => get<FilesShape>(`/runs/${run.id}/files`, {}, signal));
  const videos = (data?.files ?? []).filter((one) => one.kind === "video" && one.address).slice(-12);
  const now = Date.now();
  return <>
    {error && <Note title="The files cannot be listed" bad>{error}</Note>}
    {data && <div class="bar"><span class="count">{count(data.total, "file")}</span>{data.retention.map((text) => <span key={text} class="chip">{text}</span>)}<span class="space" /><a class="button" href={`/run/${run.id}?tab=files`}>Pin, restore and prune</a></div>}
    {data && !data.files.length && <Note title="No files yet">Checkpoints, videos and models appear here once they are in S3.</Note>}
    {videos.length > 0 && <section><h2>Videos</h2><div class="wall">{videos.map((one) => (
      <figure class="chart" key={one.digest}><video controls preload="metadata" src={one.address} aria-label={one.name} /><figcaption>{one.name}</figcaption></figure>
    ))}</div></section>}
    {data && data.files.length > 0 && (
      <div class="scroll" tabIndex={0} role="region" aria-label="Files"><table class="plain">
        <thead><tr><th scope="col">Name</th><th scope="col">Kind</th><th scope="col" class="cell-number">Size</th><th scope="col" class="cell-number">Step</th><th scope="col">Made</th><th scope="col">Integrity</th><th scope="col">Kept</th></tr></thead>
        <tbody>{data.files.map((one) => (
          <tr key={one.digest}>
            <th scope="row">{one.address ? <a href={one.address} download>{one.name || one.digest.slice(0, 12)}</a> : one.name || one.digest.slice(0, 12)}</th>
            <td>{one.kind}</td><td class="cell-number">{bytes(one.size)}</td><td class="cell-number">{one.step ? whole(one.step) : ""}</td>
            <td title={moment(one.produced_at)}>{ago(one.produced_at, now)}</td>
            <td><span class={`integrity-${one.integrity}`}>{one.integrity === "good" ? "✓ verified" : one.integrity}</span></td>
            <td>{one.pinned ? "pinned" : one.keeping}</td>
          </tr>
        ))}</tbody>
      </table></div>
    )}
  </>;
}
