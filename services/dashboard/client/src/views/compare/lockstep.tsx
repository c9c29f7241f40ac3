// Two episodes in lock-step.
import { useState } from "preact/hooks";
import { Button, Choice } from "../../ui/controls";
import { Scrubber, type Played } from "../run/scrubber";

const EPISODES = ["best", "worst", "longest", "shortest", "first", "last"].map((one) => [one, one] as const);

export function LockStep({ runs }: { runs: readonly string[] }) {
  const [left, setLeft] = useState(runs[0]!), [right, setRight] = useState(runs.at(-1)!);
  const [first, setFirst] = useState("best"), [second, setSecond] = useState(runs.length > 1 ? "best" : "worst");
  const [played, setPlayed] = useState<Played[] | null>(null);
  const names = runs.map((id) => [id, id.slice(0, 14)] as const);
  const play = () => setPlayed([{ run: left, episode: first, label: left.slice(0, 14) }, { run: right, episode: second, label: right.slice(0, 14) }]);
  return (
    <section>
      <h2>Two episodes in lock-step</h2>
      <div class="bar">
        <Choice label="Left run" value={left} options={names} choose={setLeft} /><Choice label="Left episode" value={first} options={EPISODES} choose={setFirst} />
        <Choice label="Right run" value={right} options={names} choose={setRight} /><Choice label="Right episode" value={second} options={EPISODES} choose={setSecond} />
        <Button icon="play" label="Play both" text="Play both" act={play} />
      </div>
      {played && <Scrubber key={JSON.stringify(played)} sources={played} />}
    </section>
  );
}
