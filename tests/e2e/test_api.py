"""`runspine.Api` against a whole stack: what docs/howto/api.md shows, and what it promises."""

from __future__ import annotations

import json
import math
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.api import Api
from runspine.bench.kit.browser import browsing
from runspine.errors import DeniedError, InvalidError, RunNotFoundError
from tests.kit.paths import ROOT
from tests.kit.stack import Shell
from tests.kit.waiting import until

POINTS = 2500
TRAINER = f"""
import math, runspine
run = runspine.init()
for n in range({POINTS}):
    run.log({{"walk": math.sin(n) * 1e-3 if n % 7 else float("nan"), "räte": n / 3}}, step=n)
run.finish()
print("ende ✓")
"""


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("api") / "home")
    shell("up", "--detach", "--no-page", "--slots", "2")
    yield shell
    shell("down")


@pytest.fixture(scope="module")
def api(shell: Shell) -> Iterator[Api]:
    with Api(home=shell.environment["RUNSPINE_HOME"]) as api:
        yield api


@pytest.mark.timeout(600)
def test_the_page_about_the_api_is_true(shell: Shell, tmp_path: Path) -> None:
    text = (ROOT / "docs/howto/api.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) > 6
    script = tmp_path / "page.py"
    script.write_text("\n".join(blocks))
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(
        command, cwd=ROOT, env=shell.environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


def test_a_history_is_what_the_trainer_logged(api: Api) -> None:
    run = api.submit(runner="script", command=[sys.executable, "-c", TRAINER], params={"lr": 1}, name="walk")
    states = [change.state for change in run.watch()]
    assert (states[0], states[-1]) == ("queued", "completed")
    assert run.wait(timeout=60).state == "completed"
    found = run.history(["walk", "räte"])
    wanted = [math.sin(n) * 1e-3 if n % 7 else float("nan") for n in range(POINTS)]
    walk = found.filter(found.column("metric").cast("string").to_numpy() == "walk")
    assert walk.column("step").to_pylist() == list(range(POINTS))
    assert [struct.pack("<d", v) for v in walk.column("value").to_pylist()] == [
        struct.pack("<d", v) for v in wanted
    ]
    assert run.summary["räte"] == (POINTS - 1) / 3
    remark, *printed = [entry.text for entry in run.logs()]
    assert remark.startswith("walk is nan at step 0: ")
    assert printed == ["ende ✓"]
    assert run.history("räte", wide=True, format="pandas")["räte"].iloc[-1] == (POINTS - 1) / 3
    sampled = run.history("räte", samples=10)
    assert sampled.num_rows <= 10
    assert max(sampled.column("high").to_pylist()) == (POINTS - 1) / 3
    assert "svg" in run._repr_html_()


def test_runs_are_found_by_what_was_asked_for_and_read_page_by_page(api: Api) -> None:
    names = [f"paged-{n}" for n in range(5)]
    for n, name in enumerate(names):
        api.submit(
            runner="script", command=["true"], name=name, params={"n": n, "even": n % 2 == 0}, project="pages"
        )
    found = api.runs(project="pages", page_size=2)
    assert len(found) == 5
    assert found[3].name == "paged-1"
    assert [run.name for run in found] == names[::-1]
    assert [run.name for run in found[1:3]] == ["paged-3", "paged-2"]
    assert found[-1].name == "paged-0"
    even = api.runs(project="pages", params={"even": True}, page_size=1)
    assert [run.config["n"] for run in even] == [4, 2, 0]
    assert next(iter(api.runs(project="pages", params={"n": 2.0}))).name == "paged-2"
    assert len(api.runs(project="pages", params={"n": True})) == 0
    [labelled] = [found[0].label(best="yes")]
    assert [run.id for run in api.runs(labels={"best": "yes"})] == [labelled.id]
    until(lambda: api.run(found[0].id[:20].lower()).has_ended)
    assert api.run("paged-4").labels == {"best": "yes"}


def test_many_runs_are_queried_in_sql(api: Api, shell: Shell, tmp_path: Path) -> None:
    made = [
        api.submit(runner="script", command=[sys.executable, "-c", TRAINER], params={"lr": lr}, project="sql")
        for lr in (0.1, 0.2)
    ]
    for run in made:
        run.wait(timeout=60)
    query = """SELECT p.number AS lr, count(*) AS n, max(m.value) AS best
        FROM metrics m JOIN params p USING (run_id) JOIN runs r USING (run_id)
        WHERE m.name = 'räte' AND p.name = 'lr' AND r.state = 'completed' GROUP BY 1 ORDER BY 1"""
    wanted = [{"lr": lr, "n": POINTS, "best": (POINTS - 1) / 3} for lr in (0.1, 0.2)]
    assert api.sql(query, made).to_pylist() == wanted
    assert shell.json("sql", query, "--project", "sql")["rows"] == wanted
    assert shell.json("sql", query, made[0].id)["rows"] == wanted[:1]
    shell("sql", query, "--project", "sql", "--out", tmp_path / "best.csv")
    assert (tmp_path / "best.csv").read_text().startswith(f"lr,n,best\n0.1,{POINTS},")
    assert api.sql("SELECT count(*) AS n FROM runs", format="pandas")["n"][0] >= 2
    with pytest.raises(InvalidError) as caught:
        api.sql("DROP TABLE runs", made)
    assert caught.value.violations[0].field == "query"
    shell("sql", "SELECT 1", "--project", "nothing", code=2)


def test_problems_are_exceptions_that_name_the_field(api: Api, shell: Shell) -> None:
    with pytest.raises(RunNotFoundError):
        api.run("nothing-of-that-name")
    with pytest.raises(InvalidError) as caught:
        api.submit(runner="builtin", algo="qq", env="FrozenLake-v1")
    assert caught.value.violations[0].field == "algo"
    with Api(home=shell.environment["RUNSPINE_HOME"], token="wrong") as other, pytest.raises(DeniedError):
        other.run("walk")
    run = api.submit(runner="script", command=["sleep", "600"])
    with pytest.raises(TimeoutError):
        run.wait(timeout=0.2)
    run.cancel("enough")
    assert run.wait(timeout=60).state == "cancelled"


def test_runs_of_other_tools_are_imported_once_with_every_point(
    shell: Shell, api: Api, tmp_path: Path
) -> None:
    points = [(n, n / 3 if n % 5 else math.nan, 1.6e9 + n / 7) for n in range(3000)]
    rows = [f"{step},{at!r},{value!r}" for step, value, at in points]
    (tmp_path / "alte läufe.csv").write_text("\n".join(["step,time,loss", *rows]))
    (tmp_path / "mlruns/1/abc/metrics").mkdir(parents=True)
    (tmp_path / "mlruns/1/abc/meta.yaml").write_text("run_name: deep\n")
    (tmp_path / "mlruns/1/abc/metrics/loss").write_text("1600000000000 0.5 3\n")
    first = json.loads(shell("import-runs", str(tmp_path), "--project", "old", "--json").stdout)
    again = json.loads(shell("import-runs", str(tmp_path), "--project", "old", "--json").stdout)
    assert [each["created"] for each in first["imported"]] == [True, True]
    assert [each["created"] for each in again["imported"]] == [False, False]
    assert [each["run_id"] for each in again["imported"]] == [each["run_id"] for each in first["imported"]]
    found = {run.name: run.wait(timeout=120) for run in api.runs(project="old")}
    assert set(found) == {"alte läufe", "deep"}
    run = found["alte läufe"]
    assert (run.state, run.labels["imported"]) == ("completed", "csv")
    table = run.history("loss", times=True)
    read = zip(*(table.column(name).to_pylist() for name in ("step", "value")), strict=True)
    assert [*map(str, read)] == [str((step, value)) for step, value, _ in points]
    assert [at.timestamp() for at in table.column("at").to_pylist()] == pytest.approx(
        [at for _, _, at in points], abs=2e-6
    )


def test_a_report_shows_its_charts_in_a_browser_from_a_file_without_a_network(
    shell: Shell, tmp_path: Path
) -> None:
    (tmp_path / "walk <b>.csv").write_text("step,loss\n" + "".join(f"{n},{n / 3}\n" for n in range(100)))
    done = json.loads(shell("import-runs", str(tmp_path), "--project", "reported", "--json").stdout)
    shell("watch", done["imported"][0]["run_id"])
    source = tmp_path / "study.md"
    source.write_text(
        "# Study\n\n```chart\nmetric: loss\nruns: {project: reported}\n```\n"
        "```runs\nruns: {project: reported}\nmetrics: [loss]\n```\n"
        "```sql\nSELECT count(*) AS points FROM metrics JOIN runs USING (run_id)\n"
        "WHERE project = 'reported' AND metrics.value < 10\n```\n"
    )
    shell("report", str(source))
    with browsing("") as browser:
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        browser.driver.execute_cdp_cmd("Network.enable", {})
        browser.driver.execute_cdp_cmd("Network.emulateNetworkConditions", offline)
        browser.driver.get(source.with_suffix(".html").as_uri())
        assert browser.driver.title == "Study"
        assert browser.script("return document.querySelector('svg path').getBoundingClientRect().width") > 500
        assert "walk <b>" in browser.text()
        assert [cell.text for cell in browser.driver.find_elements("css selector", "td.number")] == [
            "33",
            "30",
        ]
        assert browser.script("return performance.getEntriesByType('resource').length") == 0
        assert browser.driver.get_log("browser") == []
