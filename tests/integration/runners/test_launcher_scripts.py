"""Scripts that are not like CleanRL's: they rename what they save, repeat actions and start processes."""

from __future__ import annotations

import pytest
import torch

from tests.kit.cleanrl import Scripted, run_script
from tests.kit.samples.sdk import of_type

SCRIPT = """
import multiprocessing, os, time
import gymnasium as gym, torch

class Repeat(gym.Wrapper):
    def __init__(self, env, skip):
        super().__init__(env)
        self._skip = skip

    def step(self, action):
        for _ in range(self._skip):
            result = self.env.step(action)
        return result

def evaluate_policy(env):
    env.reset(seed=1)
    for _ in range(50):
        env.step(0)

def work():
    env = gym.make("MountainCar-v0")
    env.reset(seed=1)
    for _ in range(20):
        env.step(0)
    env.close()

def main():
    # Both envs are made in one place: only their use distinguishes them.
    env, judge = Repeat(gym.make("MountainCar-v0"), 4), gym.make("MountainCar-v0")
    env.reset(seed=1)
    for step in range(30):
        env.step(0)
        if step % 10 == 5:
            evaluate_policy(judge)
    torch.save({"w": torch.ones(3)}, "model.pt.part")
    os.replace("model.pt.part", "model.pt")
    os.mkdir("draft")
    torch.save({"w": torch.zeros(3)}, "draft/weights.pt")
    os.rename("draft", "step-30")
    torch.save({"w": torch.ones(3)}, "torn.pt")
    open("torn.pt", "w").close()
    processes = [multiprocessing.Process(target=work) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    main()
"""


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Scripted:
    folder = tmp_path_factory.mktemp("scripts")
    (folder / "script.py").write_text(SCRIPT)
    ran = run_script(folder / "run", folder / "script.py")
    assert ran.wait() == 0, ran.output
    return ran


def test_a_file_that_is_saved_aside_is_announced_under_its_last_name(done: Scripted) -> None:
    saved = done.artifacts("checkpoint")
    assert sorted(line["path"] for line in saved) == ["model.pt", "step-30/weights.pt"]
    for line in saved:
        assert torch.load(done.folder / line["path"], weights_only=True)["w"].shape == (3,)


def test_a_file_that_is_empty_in_the_end_is_not_announced_and_the_log_states_it(done: Scripted) -> None:
    assert "torn.pt was saved and is empty or gone" in done.output


def test_processes_of_a_script_have_slots_of_their_own(done: Scripted) -> None:
    envs = of_type(done.emitted, "env")
    assert sorted(line["slot"] for line in envs) == [0, 1, 2, 3]
    by_slot = {line["slot"]: 0 for line in envs}
    for block in of_type(done.emitted, "steps"):
        by_slot[block["slot"]] += block["n"]
    assert by_slot == {0: 120, 1: 150, 2: 20, 3: 20}


def test_frames_and_evaluation_do_not_move_the_scripts_counter(done: Scripted) -> None:
    training, evaluation, *_ = sorted(of_type(done.emitted, "env"), key=lambda line: int(line["slot"]))
    assert (training["frame_skip"], evaluation["frame_skip"]) == (4, 1)
    blocks = [block for block in of_type(done.emitted, "steps") if block["slot"] == 1]
    assert {block["episode_id"].partition("-")[0] for block in blocks} == {"eval"}
    assert max(block["global_step"] for block in done.training("steps") if block["slot"] == 0) <= 30
    assert {line["step"] for line in done.artifacts("checkpoint")} == {30}
