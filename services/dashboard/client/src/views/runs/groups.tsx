// Groups of the runs that the filter accepts; pressing one filters by it.
import { get } from "../../api/client";
import type { GroupsShape } from "../../api/types";
import { useFetched } from "../../state/query";
import { compact, count } from "../../ui/format";
import { Note } from "../../ui/controls";

/** The term that selects a group; values that are no plain words are quoted. */
export function groupTerm(by: string, value: string): string {
  return `${by}:${/^[\w.-]+$/.test(value) ? value : `"${value.replaceAll('"', "")}"`}`;
}

export function Groups({ by, q, version, choose }: { by: string; q: string; version: number; choose: (term: string) => void }) {
  // At most every two seconds: groups are figures over all accepted runs.
  const { data, error } = useFetched(`${by} ${q}`, Math.floor(version && Date.now() / 2000), (signal) => get<GroupsShape>("/runs/groups", { by, q }, signal));
  if (error) return <Note title="No groups" bad>{error}</Note>;
  return (
    <ul class="groups" aria-label={`Groups by ${by}`}>
      {data?.groups.map((group) => {
        const term = groupTerm(by, group.value), on = q.includes(term);
        return (
          <li key={group.value}><button type="button" class="group" aria-pressed={on} onClick={() => choose(term)}>
            <strong>{group.value || "none"}</strong>
            <span>{count(group.runs, "run")}{group.active ? ` · ${group.active} active` : ""}{group.failed ? ` · ${group.failed} failed` : ""}{group.best !== null ? ` · best ${compact(group.best)}, mean ${compact(group.mean)}` : ""}</span>
          </button></li>
        );
      })}
      {data && data.left_out > 0 && <li class="faint">{data.left_out} smaller groups</li>}
    </ul>
  );
}
