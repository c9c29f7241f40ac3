"""A BDI run, as a process: `python -m services.worker.bdi --env-id FrozenLake-v1 --params '{…}'`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import uvloop
from spade.agent import AuthenticationFailure, DisconnectedException

import runspine
from runspine.tasks import put_down
from services.worker.algorithms.checkpoints import Unusable
from services.worker.algorithms.ranges import flaws
from services.worker.bdi import checkpoint
from services.worker.bdi.account import Account, ServerTrouble, embedded, external
from services.worker.bdi.agent import LearningAgent
from services.worker.bdi.args import Args, filled
from services.worker.bdi.evaluation import Asked, Evaluation
from services.worker.bdi.program import BrokenPlans, Program
from services.worker.bdi.training import Training
from services.worker.bdi.world import FINISHED, Unfit, World, say

PLANS = Path(__file__).parent / "plans"
# A STARTTLS that hangs never ends by itself: a short wait, and again.
CONNECT_SECONDS = 5.0
TRIES = 4
LEAVE_SECONDS = 2.0
FAILED = 1


class Lost(Exception):
    """The agent lost its server."""


def plans_of(args: Args) -> tuple[str, str]:
    """Name and text of the plans."""
    if args.plan_text:
        return "plan_text", args.plan_text
    shipped = PLANS / f"{args.plans}.asl"
    path = shipped if shipped.is_file() else Path(args.plans)
    try:
        return path.name, path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenPlans(f"plans {args.plans} cannot be read: {error}") from error


def account(args: Args, folder: Path) -> AbstractAsyncContextManager[Account]:
    if args.xmpp_host:
        return contextlib.nullcontext(external(args))
    return embedded(args.agent_name, folder / "xmpp")


async def connected(made: Account, program: Program, *, alone: bool) -> LearningAgent:
    """The agent, on its server. Raises ServerTrouble."""
    why = ""
    for _ in range(TRIES):
        # A new one each time: what is left of a connection that hung does no harm.
        agent = LearningAgent(made, program, alone=alone)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await agent.start(auto_register=False)
            return agent
        except AuthenticationFailure as error:
            raise ServerTrouble(f"{made.jid} may not log in at {made.host}:{made.port}: {error}") from error
        except (TimeoutError, DisconnectedException, OSError) as error:
            why = await made.trouble() or str(error) or f"no answer within {CONNECT_SECONDS:g} s"
            agent.client.abort()
    raise ServerTrouble(f"{made.jid} does not reach {made.host}:{made.port} ({TRIES} tries): {why}")


async def live(args: Args, asked: Asked | None) -> int:
    """The whole life of an agent; the exit code."""
    stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _ask, stop, number)
    folder = Path(os.environ.get("RUNSPINE_RUN_DIR") or ".")
    plan_name, world = shown(args, asked) if asked else learning(args)
    program = Program(plan_name, world)
    async with account(args, folder) as made:
        agent = await connected(made, program, alone=not args.xmpp_host)
        try:
            return await until_over(agent, world, stop)
        finally:
            await leave(agent)


def learning(args: Args) -> tuple[str, World]:
    plan_name, plan_text = plans_of(args)
    run = runspine.init(config=vars(args), total_steps=args.total_timesteps)
    training = Training(args, plan_text, run)
    if run.resume_path:
        training.resume(run.resume_path, run.resume_kind)
    training.folder.mkdir(parents=True, exist_ok=True)
    kept = training.folder / "plans.asl"
    kept.write_text(plan_text)
    run.log_artifact(kept, kind="plans", name=plan_name)
    return plan_name, training


def shown(args: Args, asked: Asked) -> tuple[str, World]:
    """The checkpoint's own plans, unless others are given."""
    run = runspine.init(config=vars(args))
    if run.resume_path is None:
        raise Unusable("there is no checkpoint to evaluate: RUNSPINE_RESUME names none")
    about = checkpoint.read(run.resume_path)[1]
    other = args.plan_text or args.plans != Args.plans
    plan_name, plan_text = plans_of(args) if other else ("plans of the checkpoint", about["plan_text"])
    return plan_name, Evaluation(args, plan_text, run, asked, run.resume_path)


async def until_over(agent: LearningAgent, world: World, stop: asyncio.Future[int]) -> int:
    over = asyncio.create_task(agent.done.wait())
    lost = asyncio.create_task(agent.disconnected.wait())
    ends: set[asyncio.Future[Any]] = {over, lost, stop}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    await put_down(over, lost)
    agent.pause_bdi()
    if world.ended == FINISHED:
        return 0
    kept = world.keep()
    world.run.finish()
    if world.ended:
        raise BrokenPlans(world.ended)
    if stop.done():
        say(f"{signal.Signals(stop.result()).name} at step {world.step:,}: {kept}")
        return 128 + stop.result()
    why = await agent.account.trouble() or f"{agent.account.host}:{agent.account.port} closed the connection"
    raise Lost(f"the agent lost its XMPP server at step {world.step:,}: {why}; {kept}")


async def leave(agent: LearningAgent) -> None:
    """Say goodbye to the server, which may be gone."""
    agent.bdi.kill()
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(LEAVE_SECONDS):
            await agent.stop()


def _ask(asked: asyncio.Future[int], number: int) -> None:
    if not asked.done():
        asked.set_result(number)


def read_arguments(words: list[str]) -> tuple[Args, Asked | None]:
    parser = argparse.ArgumentParser("services.worker.bdi", description=Args.__doc__)
    parser.add_argument("--env-id", default=Args.env_id)
    parser.add_argument("--env-kwargs", default="{}", help="arguments of gymnasium.make, as JSON")
    parser.add_argument("--seed", type=int, default=Args.seed)
    parser.add_argument("--total-timesteps", type=int, default=Args.total_timesteps)
    parser.add_argument("--params", default="{}", help="everything else, as JSON")
    parser.add_argument("--evaluate", metavar="JSON", help="evaluate the checkpoint of RUNSPINE_RESUME")
    given: dict[str, Any] = vars(parser.parse_args(words))
    evaluate = given.pop("evaluate")
    try:
        asked = Asked(**json.loads(evaluate)) if evaluate else None
        args = filled({**json.loads(given.pop("params")), **given})
    except ValueError as error:
        sys.exit(str(error))
    if wrong := flaws(args):
        sys.exit("\n".join(wrong))
    return args, asked


def main() -> None:
    logging.getLogger("slixmpp").setLevel(logging.CRITICAL)
    logging.getLogger("spade").setLevel(logging.CRITICAL)
    args, asked = read_arguments(sys.argv[1:])
    uvloop.install()
    try:
        code = asyncio.run(live(args, asked))
    except (BrokenPlans, Lost, ServerTrouble, Unfit, Unusable, runspine.Diverged) as error:
        sys.stderr.write(f"{error}\n")
        code = FAILED
    sys.stdout.flush()
    # Libraries leave threads and sockets behind that a normal exit would wait for.
    os._exit(code)


if __name__ == "__main__":
    main()
