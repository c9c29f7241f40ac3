"""`make screenshots`: every view of the web page, light and dark, with a real stack and runs."""

from __future__ import annotations

import argparse
import asyncio
import io
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from runspine.bench.kit.browser import Browser, browsing, missing
from runspine.bench.pages.grid import learner, painted, watch
from runspine.domain.run import ENDED
from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.spec_pb2 import RunSpec

ROOT = Path(__file__).parents[3]
IMAGES = ROOT / "docs" / "images"
SIZE, PHONE = (1280, 800), (500, 860)
COLOURS = 96


def train(client: Client, scale: int) -> list[str]:
    """Submit short runs of several kinds, one that fails, and one that goes on."""
    specs = [
        RunSpec(
            runner="builtin",
            algo="ppo",
            env="CartPole-v1",
            seed=seed,
            total_steps=8 * scale,
            project="classic-control",
        )
        for seed in (1, 2)
    ]
    specs.append(RunSpec(runner="builtin", algo="dqn", env="CartPole-v1", seed=1, total_steps=6 * scale))
    specs.append(
        RunSpec(runner="builtin", algo="qlearning", env="FrozenLake-v1", seed=1, total_steps=20 * scale)
    )
    specs.append(RunSpec(runner="script", name="a-script-that-fails", command=["python3", "-c", "1 / 0"]))
    for spec in specs:
        spec.labels["group"] = "baseline"
    ids = [client.submit(spec).run.id for spec in specs]
    deadline = time.monotonic() + 600
    while any(client.get(run_id).run.phase not in ENDED for run_id in ids):
        assert time.monotonic() < deadline, "the runs take too long"
        time.sleep(0.5)
    live = RunSpec(
        runner="builtin", algo="ppo", env="Acrobot-v1", seed=1, total_steps=400 * scale, priority=80
    )
    ids.append(client.submit(live).run.id)
    waiting = RunSpec(runner="script", name="waits-for-a-gpu-box", command=["true"], pool="gpu")
    ids.append(client.submit(waiting).run.id)
    return ids


def views(ids: list[str], live: str) -> dict[str, tuple[str, Callable[[Browser], None]]]:
    """Name of a screenshot → its address, and the check that it is ready."""
    ppo, other, dqn = ids[:3] or ["", "", ""]

    def scrubbed(browser: Browser) -> None:
        browser.sees("exact: all")
        for _ in range(20):
            browser.press('.rs-control[aria-label="One step forward"]')
        browser.until(lambda: browser.find(".rs-scrubber").get_attribute("data-shown") == "20", "a frame")

    def charted(browser: Browser) -> None:
        browser.until(lambda: browser.count(".rs-curve[data-points]"), "charts")

    def moving(browser: Browser) -> None:
        watch(browser, live)
        # The rate on the page covers the last two seconds.
        painted(browser, 4.0)
        print(f"{browser.find('.rs-watch-about').text}")

    def compared(browser: Browser) -> None:
        browser.sees("Final (IQM")
        charted(browser)

    return {
        "runs": ("/?by=env", lambda browser: browser.sees("completed")),
        "run": (f"/run/{ppo}", charted),
        "live": (f"/run/{live}?tab=live", moving),
        "episodes": (f"/run/{ppo}?tab=episodes", scrubbed),
        "files": (f"/run/{ppo}?tab=files", lambda browser: browser.sees("retained")),
        "new": ("/new", lambda browser: browser.sees("Pool default has")),
        "checkpoints": ("/checkpoints", lambda browser: browser.sees("Evaluate")),
        "compare": (f"/compare?run={ppo}&run={other}&run={dqn}", compared),
        "fleet": ("/fleet", lambda browser: browser.sees("Bucket")),
    }


def take(stack: Stack, ids: list[str], live: str, folder: Path, only: str) -> None:
    address = f"http://{stack.addresses['dashboard']}"
    for name, dark, size in (("light", False, SIZE), ("dark", True, SIZE), ("phone", False, PHONE)):
        with browsing(address, size, dark) as browser:
            browser.login(stack.token)
            for view, (path, ready) in views(ids, live).items():
                if only not in ("", view) or (name == "phone" and view not in ("runs", "episodes")):
                    continue
                browser.open(path)
                ready(browser)
                time.sleep(1.5)  # charts settle
                save(browser, folder / f"{view}-{name}.png")


def save(browser: Browser, path: Path) -> None:
    """Save with few colours, so that the file stays small."""
    image = Image.open(io.BytesIO(browser.driver.get_screenshot_as_png())).convert("RGB")
    path.parent.mkdir(parents=True, exist_ok=True)
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}  {path.stat().st_size // 1024} KB")


async def shoot_all(folder: Path, scale: int, only: str) -> None:
    with tempfile.TemporaryDirectory(prefix="runspine-pictures-") as scratch:
        async with running_stack(Path(scratch) / "home", slots=3, page=True) as stack:
            while stack.parts["dashboard"].state != "ready":
                await asyncio.sleep(0.1)
            there = stack.addresses
            endpoint = Endpoint(there["orchestrator"], there["telemetry"], there["artifacts"], stack.token)
            with Client(endpoint) as client:
                ids = await asyncio.to_thread(train, client, scale) if only != "live" else []
                live = client.submit(learner("LunarLander-v3")).run.id
                await asyncio.to_thread(take, stack, ids, live, folder, only)
                for run_id in (*ids[-2:-1], live):
                    client.cancel(run_id)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=IMAGES)
    parser.add_argument("--scale", type=int, default=2500, help="length of the runs")
    parser.add_argument("--only", default="", help="one view alone, such as live")
    args = parser.parse_args()
    if missing():
        raise SystemExit(missing())
    asyncio.run(shoot_all(args.out, args.scale, args.only))


if __name__ == "__main__":
    main()
