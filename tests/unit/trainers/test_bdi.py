"""The parts of the BDI agent that need neither a server nor an env."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import pytest

from runspine.runners import NotReadyError
from runspine.services.worker.runners import spade_bdi
from runspine.services.worker.runners.env_check import EnvSpaces, Space
from runspine.services.worker.runners.spade_bdi import SpadeBdiRunner
from runspine.services.worker.telemetry.assembly.assembler import BatchAssembler
from runspine.trainers.bdi import args as bdi_args
from runspine.trainers.bdi import checkpoint
from runspine.trainers.bdi.args import Args, curiosity, filled, learning_rate
from runspine.trainers.bdi.table import TableMismatchError, ValueTable
from runspine.trainers.builtin.checkpoints import CheckpointUnusableError
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from runspine.wire.v1.telemetry_pb2 import MIND, STDERR, STDOUT, Batch


def test_a_value_moves_towards_its_goal_and_the_visit_is_counted() -> None:
    table = ValueTable(2, 3)
    assert table.best(0) == [0, 1, 2]
    assert table.learn(0, 1, goal=1.0, rate=0.5) == 1.0
    assert table.values[0] == [0.0, 0.5, 0.0]
    assert table.best(0) == [1]
    assert table.known == 1


def test_confidence_is_none_without_a_preference_and_grows_with_the_tries_of_what_is_preferred() -> None:
    table = ValueTable(2, 2)
    assert table.confidence([0, 1]) == 0.0
    table.learn(0, 1, goal=1.0, rate=0.5)
    seldom = table.confidence([0])
    assert 0.0 < seldom < 0.1
    for _ in range(1000):
        table.learn(0, 1, goal=1.0, rate=0.5)
    assert table.confidence([0]) > 0.98
    assert table.confidence([0, 1]) == pytest.approx(table.confidence([0]) / 2)
    table.values[0][0] = 2.0  # another is preferred now, and was never tried
    assert table.confidence([0]) == 0.0
    assert table.confidence([]) == 0.0


def test_a_table_of_another_size_or_with_nan_is_refused() -> None:
    table = ValueTable(4, 2)
    with pytest.raises(TableMismatchError, match="4, 2"):
        table.take(ValueTable(4, 3).arrays())
    arrays = table.arrays()
    arrays["q"][0, 0] = np.nan
    with pytest.raises(TableMismatchError, match="finite"):
        table.take(arrays)


def test_curiosity_falls_in_a_line_and_the_rate_geometrically() -> None:
    args = Args(total_timesteps=100, exploration_fraction=0.5, start_e=1.0, end_e=0.1)
    assert [round(curiosity(args, step), 3) for step in (0, 25, 50, 100)] == [1.0, 0.55, 0.1, 0.1]
    assert learning_rate(args, 0) == pytest.approx(0.1)
    assert learning_rate(args, 100) == pytest.approx(0.005)
    assert curiosity(Args(exploration_fraction=0.0, end_e=0.2), 0) == pytest.approx(0.2)


def test_arguments_of_the_wrong_name_or_type_are_named() -> None:
    assert filled({"gamma": 1}).gamma == 1.0
    with pytest.raises(ValueError, match="gama is not a parameter"):
        filled({"gama": 1.0})
    with pytest.raises(ValueError, match="xmpp_verify is 'yes', and bool"):
        filled({"xmpp_verify": "yes"})


def test_what_may_differ_on_resume_are_arguments_that_exist() -> None:
    assert vars(Args()).keys() >= bdi_args.RESUME_MAY_CHANGE
    assert bdi_args.FROM_SPEC == spade_bdi.FROM_SPEC


def saved(path: Path, **about: object) -> Path:
    file = io.BytesIO()
    checkpoint.write(file, ValueTable(3, 2).arrays(), about)
    path.write_bytes(file.getvalue())
    return path


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    arrays, about = checkpoint.read(saved(tmp_path / "c.npz", step=7, env_id="Ä", rng={"state": 1 << 127}))
    assert arrays["q"].shape == (3, 2)
    assert about["step"] == 7
    assert about["env_id"] == "Ä"
    assert about["rng"] == {"state": 1 << 127}


def test_what_is_no_checkpoint_is_refused_with_the_reason(tmp_path: Path) -> None:
    good = saved(tmp_path / "good.npz", step=7)
    cut = tmp_path / "cut.npz"
    cut.write_bytes(good.read_bytes()[:-30])
    pickled = tmp_path / "pickled.npz"
    np.savez(pickled, about=np.array([{"code": print}], object), q=np.zeros(1))
    other = tmp_path / "other.npz"
    np.savez(other, about=np.frombuffer(b'{"format":"x"}', np.uint8), q=np.zeros(1), visits=np.zeros(1))
    empty = tmp_path / "empty.npz"
    empty.write_bytes(b"")
    for path, why in (
        (cut, "cannot be read"),
        (pickled, "cannot be read.*pickle"),
        (other, "not one of a BDI run"),
        (empty, "cannot be read"),
        (tmp_path / "none.npz", "cannot be read"),
    ):
        with pytest.raises(CheckpointUnusableError, match=why):
            checkpoint.read(path)


def mind_line(**changes: object) -> bytes:
    emitted = {"type": "mind", "step": 40, "goals": ["learn"], "beliefs": ["state(3)", "over"], "t": 5.0}
    return json.dumps({**emitted, "intentions": ["live > explore"], "confidence": 0.25, **changes}).encode()


def test_a_mind_becomes_a_log_line_of_its_own_source_and_numbers_for_the_charts() -> None:
    recording = BatchAssembler("run", 1, RunSpec())
    assert recording.take(mind_line(), STDOUT, 9) is None
    batches = [Batch.FromString(record.payload) for record in recording.cut(10, final=True)]
    [line] = [line for batch in batches for line in batch.logs.lines]
    assert (line.source, line.at) == (MIND, 5_000_000)
    assert json.loads(line.text) == {
        "goals": ["learn"],
        "beliefs": ["state(3)", "over"],
        "intentions": ["live > explore"],
        "confidence": 0.25,
        "step": 40,
    }
    points = {block.name: (block.values[0], block.steps[0]) for b in batches for block in b.metrics.blocks}
    assert points == {
        "mind/goals": (1.0, 40),
        "mind/beliefs": (2.0, 40),
        "mind/intentions": (1.0, 40),
        "mind/confidence": (0.25, 40),
    }


@pytest.mark.parametrize(
    "changes", [{"goals": "learn"}, {"beliefs": [{}]}, {"confidence": "high"}, {"step": -1}, {"t": "now"}]
)
def test_a_mind_that_is_malformed_is_kept_as_a_plain_line_and_counted(changes: dict[str, object]) -> None:
    recording = BatchAssembler("run", 1, RunSpec())
    line = mind_line(**changes)
    assert recording.take(line, STDOUT, 9) == line.decode()
    assert recording.counts.malformed == 1
    assert recording.counts.metrics == 0


def test_a_mind_on_stderr_is_text_as_everything_there() -> None:
    recording = BatchAssembler("run", 1, RunSpec())
    assert recording.take(mind_line(), STDERR, 9) == mind_line().decode()
    assert recording.counts.malformed == 0


def spec(**params: str) -> RunSpec:
    given = {name: Value(text=value) for name, value in params.items()}
    return RunSpec(runner="spade_bdi", algo="qlearning", env="FrozenLake-v1", params=given)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"plans": "mine.asl"}, "neither shipped .learner. nor a full path"),
        ({"plans": "/none/mine.asl"}, "/none/mine.asl does not exist on this worker"),
        ({"plans": "learner", "plan_text": "!x."}, "both given: remove one"),
        ({"agent_name": "Ann@home"}, "agent_name 'Ann@home': letters a-z"),
    ],
)
def test_plans_and_names_that_cannot_be_used_are_refused_with_the_remedy(
    tmp_path: Path, params: dict[str, str], why: str
) -> None:
    with pytest.raises(NotReadyError, match=why):
        SpadeBdiRunner().launch(spec(**params), tmp_path, "python")


def test_a_server_that_cannot_be_used_is_refused_before_the_launch() -> None:
    with pytest.raises(NotReadyError, match="xmpp_jid is missing"):
        spade_bdi.check_server({"xmpp_host": "h"}, [])
    with pytest.raises(NotReadyError, match="secrets lacks XMPP_PASSWORD"):
        spade_bdi.check_server({"xmpp_host": "h", "xmpp_jid": "a@h"}, [])
    params = {"xmpp_host": "127.0.0.1", "xmpp_port": 1, "xmpp_jid": "a@h"}
    with pytest.raises(
        NotReadyError, match=r"no XMPP server at 127.0.0.1:1: .*refused.*leave xmpp_host empty"
    ):
        spade_bdi.check_server(params, ["XMPP_PASSWORD"])


def test_an_env_without_numbered_states_is_refused_with_what_fits() -> None:
    box, discrete = Space("Box", "Box(4,)", True), Space("Discrete", "Discrete(4)", True)
    assert not spade_bdi.unfit("E", EnvSpaces(discrete, discrete))
    assert "discrete observations, and those of E are Box(4,)" in spade_bdi.unfit(
        "E", EnvSpaces(box, discrete)
    )
    assert "discrete actions" in spade_bdi.unfit("E", EnvSpaces(discrete, box))
