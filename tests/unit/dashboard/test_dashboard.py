"""The pure core of the dashboard: rows, drafts, checks, comparisons, login."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from runspine.cli import cli
from runspine.cli.errors import UNREACHABLE, run
from runspine.domain.run import ACTIVE, ENDED
from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from runspine.embedded.plan import StackOptions, plan
from runspine.embedded.ports import PortBook
from runspine.errors import InvalidError
from runspine.services.dashboard.core.comparison import as_curves, as_rows, compare_runs
from runspine.services.dashboard.core.draft import as_plain, from_plain, params_of
from runspine.services.dashboard.core.evaluation import evaluation_spec
from runspine.services.dashboard.core.hyperparameters import side_by_side
from runspine.services.dashboard.core.preflight import ERROR, NOTICE, OK, may_launch, preflight
from runspine.services.dashboard.core.run_groups import group_runs
from runspine.services.dashboard.core.run_row import run_row
from runspine.services.dashboard.core.run_table import MAX_SPARK_POINTS, RunTable
from runspine.services.dashboard.core.submit_command import submit_command
from runspine.services.dashboard.edges.login.person import Login
from runspine.services.dashboard.edges.login.routes import inside
from runspine.services.dashboard.edges.site import refuse_open_site
from runspine.services.dashboard.pages.runs.page import phases_of
from runspine.services.dashboard.settings import DashboardSettings
from runspine.spec.run_file import parse
from runspine.spec.strict_yaml import write_yaml
from runspine.wire.v1 import artifacts_pb2 as artifacts
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.preflight_pb2 import PREFLIGHT_READY, PREFLIGHT_UNKNOWN, Preflight
from runspine.wire.v1.run_pb2 import COMPLETED, FAILED, RUNNING, Phase, Worker
from runspine.wire.v1.runner_pb2 import INTEGER, AlgoInfo, Param, RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, RunSpec, Value
from runspine.wire.v1.telemetry_pb2 import Series
from runspine.wire.v1.trainer_pb2 import RunSummary, WatchResponse
from tests.kit.samples.runs import a_run


def keys_of(value: object) -> set[str]:
    """Every key at any depth."""
    if isinstance(value, dict):
        return {str(key) for key in value} | {key for inner in value.values() for key in keys_of(inner)}
    if isinstance(value, list):
        return {key for inner in value for key in keys_of(inner)}
    return set()


def test_no_name_that_a_user_gave_is_a_key_of_a_row() -> None:
    run = a_run(spec=RunSpec(env=":env", params={":x": Value(text="window.stolen = 1")}))
    run.labels[":x"] = "window.stolen = 1"
    row = run_row(run, Progress(), [])
    assert not [key for key in keys_of(row) if key.startswith(":")]
    assert row["labels"] == [[":x", "window.stolen = 1"]]


def test_a_row_holds_nothing_that_json_cannot() -> None:
    row = run_row(a_run(), Progress(mean_return=math.nan, steps_per_second=math.inf), [math.nan, 1.0])
    assert json.loads(json.dumps(row, allow_nan=False))["returns"] == [None, 1.0]


def test_the_table_returns_only_changed_entries_newest_first() -> None:
    table = RunTable()
    for number in range(3):
        table.apply_summary(RunSummary(run=a_run(f"r{number}", number + 1)))
    seen = table.version
    assert table.changed_since(seen) == []
    table.apply_watch(WatchResponse(run_id="r1", progress=Progress(step=5)))
    assert [entry.run.id for entry in table.changed_since(seen)] == ["r1"]
    assert table.position == 3


def test_an_older_listing_does_not_undo_a_watch_message() -> None:
    table = RunTable()
    newer = a_run("r1", 9, phase=COMPLETED)
    table.apply_watch(WatchResponse(run_id="r1", position=9, run=newer, facts=[{}]))
    table.apply_summary(RunSummary(run=a_run("r1", 4, phase=RUNNING)))
    entry = table.get("r1")
    assert entry is not None
    assert entry.run.phase == COMPLETED


def test_a_small_curve_is_bounded_and_skips_what_is_no_number() -> None:
    table = RunTable()
    table.apply_summary(RunSummary(run=a_run()))
    for number in range(MAX_SPARK_POINTS * 3):
        value = math.nan if number % 2 else float(number)
        table.apply_watch(
            WatchResponse(run_id="r1", progress=Progress(episodes=number + 1, mean_return=value))
        )
    entry = table.get("r1")
    assert entry is not None
    assert len(entry.returns) == MAX_SPARK_POINTS
    assert all(math.isfinite(value) for value in entry.returns)


def test_groups_count_their_runs_and_name_the_best() -> None:
    table = RunTable()
    for number, (env, phase) in enumerate([("A", RUNNING), ("A", FAILED), ("", COMPLETED)]):
        summary = RunSummary(run=a_run(f"r{number}", number + 1, phase=phase, spec=RunSpec(env=env)))
        summary.progress.mean_return = float(number)
        table.apply_summary(summary)
    first, second = group_runs(table.entries(), "env")
    assert (first.name, first.runs, first.active, first.failed, first.best) == ("A", 2, 1, 1, 1.0)
    assert (second.name, second.runs) == ("–", 1)


def test_every_phase_is_active_or_ended_and_the_menu_shows_it_as_such() -> None:
    assert {phase for phase in Phase.values() if phase} == ACTIVE | ENDED
    assert not ACTIVE & ENDED
    assert phases_of("active") == ["submitted", "queued", "running", "stale", "cancelling", "quarantined"]
    assert phases_of("failed") == ["failed"]
    assert phases_of("all") is None


@pytest.fixture
def info() -> RunnerInfo:
    steps = Param(name="num_steps", type=INTEGER, default=Value(integer=128))
    return RunnerInfo(name="builtin", algos=[AlgoInfo(name="ppo", params=[steps])], uses_gpu=True)


def test_a_draft_holds_only_what_differs_from_the_defaults_and_comes_back_whole(info: RunnerInfo) -> None:
    plain = {
        "runner": "builtin", "algo": "ppo", "env": "CartPole-v1", "seed": 3,
        "params": {"num_steps": 64}, "labels": {"a": "b"}, "retry": {"max_attempts": 2},
    }  # fmt: skip
    draft = from_plain(plain)
    params = params_of(info, "ppo")
    assert as_plain(draft, params) == plain
    draft.params["num_steps"] = 128
    draft.common["seed"] = None
    assert as_plain(draft, params) == {
        name: value for name, value in plain.items() if name not in ("params", "seed")
    }


def test_the_command_shown_is_the_run_file_shown(info: RunnerInfo) -> None:
    text = write_yaml({"runner": "script", "command": ["echo", "RUN"], "notes": "two\nlines\nRUN\n"})
    shown = submit_command(text).split("\n")
    assert shown[0].startswith("runspine submit - <<'RUN")
    mark = shown[-1]
    assert shown[0].endswith(f"'{mark}'")
    inside = "\n".join([*shown[1:-1], ""])
    assert (
        parse(inside, source="it", folder=Path("/")).specs == parse(text, source="it", folder=Path("/")).specs
    )


def test_a_runner_that_is_not_ready_keeps_the_launch_button_shut(info: RunnerInfo) -> None:
    worker = Worker(online=True, pools=["default"], slots=2, running=["x"])
    checks = preflight(info, [worker], RunSpec(), [], ["take care"])
    assert may_launch(checks)
    assert "Pool default has 1 free slot." in [check.text for check in checks if check.level == OK]
    assert checks[0].level == NOTICE
    info.not_ready = "torch is not installed: pip install torch"
    checks = preflight(info, [worker], RunSpec(), [], [])
    assert not may_launch(checks)
    assert checks[0].level == ERROR
    assert "pip install torch" in checks[0].text


def test_what_a_worker_answers_about_the_launch_is_on_the_list(info: RunnerInfo) -> None:
    unknown = Preflight(state=PREFLIGHT_UNKNOWN, reason="worker w1 did not answer in time")
    checks = preflight(info, [], RunSpec(), [], [], unknown)
    assert "not known: worker w1 did not answer" in " ".join(c.text for c in checks if c.level == NOTICE)
    assert may_launch(checks)
    known = Preflight(state=PREFLIGHT_READY, worker_id="w1", command=["python"])
    checks = preflight(info, [], RunSpec(), [], [], known)
    assert "Worker w1 has tried the launch and would start it." in [c.text for c in checks if c.level == OK]


def test_a_pool_without_workers_and_a_missing_gpu_are_reported_before_the_run_waits(info: RunnerInfo) -> None:
    checks = preflight(info, [], RunSpec(pool="gpu", gpus=2), [], [])
    notices = " ".join(check.text for check in checks if check.level == NOTICE)
    assert "No worker serves pool gpu" in notices
    assert "needs 2 GPUs" in notices


def test_an_evaluation_takes_the_env_and_its_arguments_from_the_run_that_trained(info: RunnerInfo) -> None:
    card = artifacts.CheckpointCard(env="Lake-v1", algo="q", runner="mine", seed=7)
    card.artifact.digest, card.artifact.run_id, card.artifact.name = "d" * 64, "r1", "checkpoints/q.pt"
    trained = RunSpec(env="Lake-v1", env_kwargs={"slippery": Value(boolean=True)})
    spec = evaluation_spec(card, [info], now=1, trained=trained)
    assert (spec.env, spec.mode, spec.runner, spec.seed) == ("Lake-v1", EVALUATE, "builtin", 7)
    assert spec.env_kwargs["slippery"].boolean
    wanted = spec.evaluation
    assert (wanted.digest, wanted.run_id, wanted.name) == ("d" * 64, "r1", "q.pt")
    other = evaluation_spec(card, [info], now=1, env="Other-v1", trained=trained)
    assert not other.env_kwargs
    card.env = ""
    with pytest.raises(InvalidError, match="which env"):
        evaluation_spec(card, [info], now=1)


def test_only_parameters_that_differ_stand_side_by_side() -> None:
    one = RunSpec(env="A", algo="ppo", params={"lr": Value(number=0.1), "n": Value(integer=1)})
    two = RunSpec(env="A", algo="ppo", params={"lr": Value(number=0.2), "n": Value(integer=1)})
    assert side_by_side([one, two], only_different=True) == [("params.lr", ["0.1", "0.2"])]


def test_seeds_are_one_curve_with_a_band_and_their_order_is_by_how_they_end() -> None:
    runs = [
        a_run(f"{algo}{seed}", spec=RunSpec(env="E", algo=algo, seed=seed))
        for algo in ("bad", "good")
        for seed in (1, 2, 3)
    ]
    series = {
        run.id: Series(
            x=[0, 50, 100], y=[0, run.spec.seed, (10 if run.spec.algo == "good" else 1) + run.spec.seed]
        )
        for run in runs
    }
    found = compare_runs(runs, series, axis="step", statistic="iqm", by=(), each=False)
    curves = as_curves(found)
    assert [curve["name"] for curve in curves] == ["bad (3 runs)", "good (3 runs)"]
    assert all(
        low <= y <= high for c in curves for low, y, high in zip(c["low"], c["y"], c["high"], strict=True)
    )
    assert [row["group"] for row in as_rows(found)] == ["good", "bad"]
    assert len(as_curves(compare_runs(runs, series, axis="step", statistic="mean", by=(), each=True))) == 6
    with pytest.raises(InvalidError, match="none of these runs"):
        compare_runs(runs, {}, axis="step", statistic="iqm", by=(), each=False)


def test_on_the_axis_of_time_runs_are_compared_from_the_start_of_each() -> None:
    slow, fast = (
        a_run(name, spec=RunSpec(env="E", algo=name), started_at=start)
        for name, start in (("slow", 1_700_000_000_000_000), ("fast", 1_700_000_900_000_000))
    )
    series = {
        run.id: Series(x=[run.started_at + t * 1e6 for t in (1, 50, 100)], y=y)
        for run, y in ((slow, [0, 1, 2]), (fast, [0, 9, 10]))
    }
    found = compare_runs([slow, fast], series, axis="time", statistic="iqm", by=(), each=False)
    for curve in as_curves(found):
        assert (curve["x"][0], curve["x"][-1], len(curve["x"])) == (1.0, 100.0, 100)
    assert [row["group"] for row in as_rows(found)] == ["fast", "slow"]
    assert as_rows(found)[0]["reached"].startswith("50 "), "seconds since its own start"


@pytest.mark.parametrize(
    "place", ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:1", ""]
)
def test_a_login_leads_nowhere_else(place: str) -> None:
    assert inside(place) == "/"


def test_a_known_token_is_let_in_with_its_scope_and_no_other(tmp_path: Path) -> None:
    import hashlib

    path = tmp_path / "tokens.json"
    digest = hashlib.sha256(b"secret").hexdigest()
    path.write_text(json.dumps([{"name": "ann", "sha256": digest, "scope": "read"}]))
    login = Login(path)
    person = login.person("secret")
    assert person is not None
    assert (person.name, person.may_run) == ("ann", False)
    assert login.person("Secret") is None
    assert login.person("") is None


def test_a_page_that_others_could_reach_needs_tokens_and_encryption(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="RUNSPINE_TOKENS_FILE"):
        refuse_open_site(DashboardSettings(http_address="0.0.0.0:8090", tokens_file=None))
    with pytest.raises(SystemExit, match="RUNSPINE_HTTP_TLS_CERT"):
        refuse_open_site(DashboardSettings(http_address="0.0.0.0:8090", tokens_file=tmp_path / "t"))
    refuse_open_site(DashboardSettings(http_address="127.0.0.1:8090", tokens_file=None))


def test_the_page_of_a_stack_may_only_look_and_knows_no_password_but_its_own(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    home.prepare()
    credentials = load_credentials(home)
    ports = PortBook(home.ports_file, use_defaults=False)
    try:
        [part] = plan(home, StackOptions(only={"dashboard"}), credentials, ports)
    finally:
        ports.close()
    given = set(part.variables.values())
    others = {password for user, password in credentials.nats.items() if user != "dashboard"}
    assert not given & {*others, credentials.s3_secret_key, credentials.token}
    assert part.variables["RUNSPINE_NATS_USER"] == "dashboard"
    assert part.variables["RUNSPINE_TOKEN"] == credentials.page_token
    scopes = {entry["name"]: entry["scope"] for entry in json.loads(home.tokens_file.read_text())}
    assert scopes == {"local": "admin", "dashboard": "read", "notices": "run"}
    assert not part.awaited


def test_web_reports_that_there_is_no_stack(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cli, ["web", "--home", str(tmp_path / "home")]) == UNREACHABLE
    assert "runspine up" in capsys.readouterr().err
