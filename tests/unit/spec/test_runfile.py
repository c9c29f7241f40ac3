from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.errors import InvalidError
from runspine.spec.plain import plain_value
from runspine.spec.run_file import RunFile, apply_overrides, group_labels, load, parse, read_seeds, spec_yaml
from runspine.spec.strict_yaml import plain_scalar
from runspine.wire.v1.spec_pb2 import TRAIN, RunSpec
from tests.kit.paths import ROOT


def read(text: str, *sets: str, folder: Path = Path("/nonexistent")) -> RunFile:
    return parse(text, source="run.yaml", folder=folder, sets=sets)


def one(text: str, *sets: str) -> RunSpec:
    (spec,) = read(text, *sets).specs
    return spec


def refusal(text: str, *sets: str) -> str:
    with pytest.raises(InvalidError) as caught:
        read(text, *sets)
    return str(caught.value)


def test_a_file_becomes_a_spec() -> None:
    spec = one(
        """
        runner: script
        command: [python, train.py, --lr, 3e-4, --steps, 010]
        seed: 7
        mode: train
        labels: {team: 3, note: yes}
        variables: {OMP_NUM_THREADS: 1}
        limits: {wall_seconds: 60}
        total_steps: 1e6
        """
    )
    assert list(spec.command) == ["python", "train.py", "--lr", "3e-4", "--steps", "010"]
    assert (spec.seed, spec.mode, spec.total_steps) == (7, TRAIN, 1_000_000)
    assert dict(spec.labels) == {"team": "3", "note": "yes"}
    assert spec.limits.wall_seconds == 60.0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3e-4", 3e-4),
        ("1E6", 1e6),
        (".5", 0.5),
        ("1_000_000", 1_000_000),
        ("-3", -3),
        ("0x10", 16),
        ("true", True),
        ("yes", "yes"),
        ("on", "on"),
        ("007", "007"),
        ("1:30", "1:30"),
        ("2026-01-02", "2026-01-02"),
        ("e5", "e5"),
        ("~", None),
        (".inf", math.inf),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_plain_text_is_read_as_a_person_means_it(text: str, value: object) -> None:
    found = plain_scalar(text)
    assert found == value
    assert type(found) is type(value)


def test_parameters_keep_their_types() -> None:
    spec = one("params: {lr: 3e-4, n: 3, big: 3.0, on: true, name: '3', net: [64, 64], opt: {eps: 1e-5}}")
    plain = {key: plain_value(value) for key, value in spec.params.items()}
    assert plain == {
        "lr": 3e-4,
        "n": 3,
        "big": 3.0,
        "on": True,
        "name": "3",
        "net": [64, 64],
        "opt": {"eps": 1e-5},
    }
    assert isinstance(plain["n"], int)
    assert isinstance(plain["big"], float)


def test_every_fault_is_named_with_its_line_and_a_remedy() -> None:
    message = refusal(
        "runner: script\ncomand: [x]\nseed: abc\nmode: trian\nlimits: {wall_seconds: [1]}\nparams: {lr: ~}\n"
    )
    assert "run.yaml:2: comand: unknown field" in message
    assert "Did you mean 'command'?" in message
    assert "run.yaml:3: seed: expected a whole number" in message
    assert "got text 'abc'" in message
    assert "run.yaml:4: mode: expected one of train" in message
    assert "run.yaml:5: limits.wall_seconds: expected a finite number, got a list of 1" in message
    assert "run.yaml:6: params.lr: null is not accepted; omit the line" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed: 1\nseed: 2", "run.yaml:2: 'seed' is given twice; first at run.yaml:1"),
        ("params: {a: &x [1], b: *x}", "anchors and aliases are not supported"),
        ("name: !!python/object:os.system x", "tag"),
        ("[" * 100_000, "nested deeper than 32 levels"),
        ("a: [", "not YAML"),
        ("", "empty"),
        ("a: 1\n---\nb: 2", "a second document"),
        ("- 1", "expected fields"),
        ("x" * (1 << 20) + ": 1", "larger than 1 MB"),
        ("seed: -1", "expected a whole number from 0"),
        ("seed: 1.5", "expected a whole number from 0"),
        ("seed: true", "expected a whole number from 0"),
        ("command: python train.py", "expected a list"),
        ("labels: [a]", "expected names and their values"),
        ("params: {n: 99999999999999999999}", "does not fit in 64 bits"),
        ("name:", "null is not accepted"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, words: str) -> None:
    assert words in refusal(text)


def test_overrides_are_read_as_yaml() -> None:
    spec = one(
        "runner: script\nparams: {a: 1}",
        "params.learning_rate=3e-4",
        "params.net=[64, 64]",
        'params."a.b"=x',
        "params.opt.eps=1e-5",
        "labels.app.kubernetes.io/name=7",
        "seed=9",
        "name=",
    )
    plain = {key: plain_value(value) for key, value in spec.params.items()}
    assert plain == {"a": 1, "learning_rate": 3e-4, "net": [64, 64], "a.b": "x", "opt": {"eps": 1e-5}}
    assert dict(spec.labels) == {"app.kubernetes.io/name": "7"}
    assert (spec.seed, spec.name) == (9, "")


def test_a_wrong_override_is_named() -> None:
    assert "--set seed: seed: expected a whole number" in refusal("runner: script", "seed=abc")
    assert "expected key=value" in refusal("runner: script", "seed")
    assert "not a field path" in refusal("runner: script", ".seed=1")
    assert "not a field path" in refusal("runner: script", "params.=1")
    assert "runner is one value" in refusal("runner: script", "runner.x=1")


def test_seeds_and_sweep_make_a_full_grid() -> None:
    file = read("runner: script\nseeds: [1, 2]\nsweep: {params.lr: [1e-3, 1e-4], labels.x: [a, b]}")
    assert len(file.specs) == 8
    combinations = {(s.seed, s.params["lr"].number, s.labels["x"]) for s in file.specs}
    assert len(combinations) == 8
    assert file.variations[0] == {"params.lr": "1e-3", "labels.x": "a", "seed": "1"}


def test_a_group_shares_a_label_and_its_names_differ() -> None:
    file = read("name: sweep\nseeds: [1, 2, 3]")
    group_labels(file, "g-1")
    assert [spec.name for spec in file.specs] == ["sweep-1", "sweep-2", "sweep-3"]
    assert {spec.labels["group"] for spec in file.specs} == {"g-1"}


def test_a_grid_that_is_too_large_is_refused_before_it_is_built() -> None:
    values = "[" + ", ".join(map(str, range(1000))) + "]"
    message = refusal(f"sweep: {{params.a: {values}, params.b: {values}, params.c: {values}}}")
    assert "1000000000 runs (1000 × 1000 × 1000); at most 1000" in message


def test_a_grid_can_be_set_from_the_command_line() -> None:
    assert len(read("runner: script", "seeds=[1, 2]", "sweep.params.lr=[1, 2]").specs) == 4


def test_seeds_given_twice_are_refused() -> None:
    assert "keep one" in refusal("seeds: [1]\nsweep: {seed: [2]}")


def test_files_next_to_the_run_file_are_found(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    (tmp_path / "run.sh").write_text("")
    (tmp_path / "python").write_text("")
    (tmp_path / "run.yaml").write_text("runner: script\ncommand: [python, train.py, --out, other.txt]")
    (spec,) = load(tmp_path / "run.yaml").specs
    assert list(spec.command) == ["python", str(tmp_path / "train.py"), "--out", "other.txt"]
    (tmp_path / "run.yaml").write_text("runner: script\ncommand: [./run.sh]")
    (spec,) = load(tmp_path / "run.yaml").specs
    assert list(spec.command) == [str(tmp_path / "run.sh")]


def test_a_workdir_of_ones_own_wins(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text("")
    (tmp_path / "train.py").write_text("")
    (tmp_path / "run.yaml").write_text("runner: script\nworkdir: work\ncommand: [python, train.py]")
    (spec,) = load(tmp_path / "run.yaml").specs
    assert spec.workdir == str(tmp_path / "work")
    assert list(spec.command) == ["python", "train.py"]


def test_a_missing_file_is_an_answer_not_a_traceback(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="No such file"):
        load(tmp_path / "none.yaml")
    with pytest.raises(InvalidError, match="Is a directory"):
        load(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidError, match="not UTF-8"):
        load(tmp_path / "binary.yaml")


def test_the_servers_word_on_a_field_gets_its_line() -> None:
    from runspine.errors import Violation

    file = read("runner: script\npriority: 7\nparams:\n  lr: 1\n")
    found = file.locate([Violation("spec.priority", "x"), Violation("params.lr", "y"), Violation("env", "z")])
    assert [v.where for v in found] == ["run.yaml:2", "run.yaml:4", ""]


def test_a_changed_spec_keeps_the_rest() -> None:
    old = one(
        "runner: script\ncommand: [a, '1e6']\nparams: {lr: 1.0, name: '3', on: true}\n"
        "retry: {max_attempts: 2}"
    )
    new = apply_overrides(old, ["params.lr=2.0"])
    assert new.params["lr"].number == 2.0
    new.params["lr"].number = 1.0
    assert new == old


@pytest.mark.parametrize("name", ["hello.yaml", "hello_sweep.yaml"])
def test_the_examples_are_valid(name: str) -> None:
    for spec in load(ROOT / "examples" / name).specs:
        assert spec.command[1] == str(ROOT / "examples" / "hello_trainer.py")


text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(text, values, max_size=4), st.lists(text, max_size=3), text)
def test_any_spec_written_as_yaml_reads_back_the_same(
    params: dict[str, object], command: list[str], name: str
) -> None:
    from runspine.spec.plain import fill_value
    from runspine.spec.strict_yaml import node_of

    spec = RunSpec(runner="other", command=command, name=name, seed=0, priority=0)
    for key, value in params.items():
        assert fill_value(spec.params[key], node_of(value), key) == []
    assert one(spec_yaml(spec)) == spec


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("1..5", [1, 2, 3, 4, 5]), ("1,2,7", [1, 2, 7]), ("1..3, 7,2", [1, 2, 3, 7]), ("4", [4])],
)
def test_seeds_are_a_range_or_a_list(text: str, seeds: list[int]) -> None:
    assert read_seeds(text, "--seeds") == seeds


@pytest.mark.parametrize("text", ["", "5..1", "a", "1..", "-1", "1..2..3", "1..1_000_000", "1,,2"])
def test_seeds_that_are_none_are_refused_where_they_stand(text: str) -> None:
    with pytest.raises(InvalidError, match="--seeds"):
        read_seeds(text, "--seeds")


def test_seeds_may_be_a_range() -> None:
    assert [spec.seed for spec in read("{runner: script, command: [x], seeds: 3..5}").specs] == [3, 4, 5]
