"""Process of a BDI run: `python -m runspine.trainers.bdi --env-id FrozenLake-v1 --params '{…}'`."""

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
from runspine.domain import artifact_kinds
from runspine.tasks import cancel_and_wait
from runspine.trainers.bdi import checkpoint
from runspine.trainers.bdi.account import XmppAccount, XmppServerError, embedded, external
from runspine.trainers.bdi.agent import LearningAgent
from runspine.trainers.bdi.args import Args, filled
from runspine.trainers.bdi.evaluation import BdiEvaluation, EvaluationRequest
from runspine.trainers.bdi.program import PlansError, Program
from runspine.trainers.bdi.training import BdiTraining
from runspine.trainers.bdi.world import FINISHED, AgentEnvError, World
from runspine.trainers.builtin.checkpoints import CheckpointUnusableError
from runspine.trainers.builtin.ranges import range_violations
from runspine.trainers.output import echo

PLANS = Path(__file__).parent / "plans"
# A STARTTLS that hangs never ends: a short timeout, and another try.
CONNECT_SECONDS = 5.0
MAX_TRIES = 4
LEAVE_SECONDS = 2.0
FAILED = 1


class ServerLostError(Exception):
    """The agent lost its server."""


def plans_of(args: Args) -> tuple[str, str]:
    """Return name and text of the plans. Raises PlansError."""
    if args.plan_text:
        return "plan_text", args.plan_text
    shipped = PLANS / f"{args.plans}.asl"
    path = shipped if shipped.is_file() else Path(args.plans)
    try:
        return path.name, path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise PlansError(f"plans {args.plans} cannot be read: {error}") from error


def account(args: Args, folder: Path) -> AbstractAsyncContextManager[XmppAccount]:
    if args.xmpp_host:
        return contextlib.nullcontext(external(args))
    return embedded(args.agent_name, folder / "xmpp")


async def connected(made: XmppAccount, program: Program, *, alone: bool) -> LearningAgent:
    """Connect the agent to its server. Raises XmppServerError."""
    why = ""
    for _ in range(MAX_TRIES):
        # A new agent each time: a connection that hung is left behind.
        agent = LearningAgent(made, program, alone=alone)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await agent.start(auto_register=False)
            return agent
        except AuthenticationFailure as error:
            raise XmppServerError(f"{made.jid} may not log in at {made.host}:{made.port}: {error}") from error
        except (TimeoutError, DisconnectedException, OSError) as error:
            why = await made.trouble() or str(error) or f"no answer within {CONNECT_SECONDS:g} s"
            agent.client.abort()
    raise XmppServerError(f"{made.jid} does not reach {made.host}:{made.port} ({MAX_TRIES} tries): {why}")


async def run_agent(args: Args, request: EvaluationRequest | None) -> int:
    """Run the agent to its end; return the exit code."""
    stop: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, _on_signal, stop, number)
    folder = Path(os.environ.get("RUNSPINE_RUN_DIR") or ".")
    plan_name, world = evaluation(args, request) if request else training(args)
    program = Program(plan_name, world)
    async with account(args, folder) as made:
        agent = await connected(made, program, alone=not args.xmpp_host)
        try:
            return await until_over(agent, world, stop)
        finally:
            await leave(agent)


def training(args: Args) -> tuple[str, World]:
    plan_name, plan_text = plans_of(args)
    run = runspine.init(config=vars(args), total_steps=args.total_timesteps)
    world = BdiTraining(args, plan_text, run)
    if run.resume_path:
        world.resume(run.resume_path, run.resume_kind)
    world.folder.mkdir(parents=True, exist_ok=True)
    kept = world.folder / "plans.asl"
    kept.write_text(plan_text)
    run.log_artifact(kept, kind=artifact_kinds.PLANS, name=plan_name)
    return plan_name, world


def evaluation(args: Args, request: EvaluationRequest) -> tuple[str, World]:
    """The evaluation, with the checkpoint's plans unless others are given."""
    run = runspine.init(config=vars(args))
    if run.resume_path is None:
        raise CheckpointUnusableError("there is no checkpoint to evaluate: RUNSPINE_RESUME names none")
    about = checkpoint.read(run.resume_path)[1]
    other = args.plan_text or args.plans != Args.plans
    plan_name, plan_text = plans_of(args) if other else ("plans of the checkpoint", about["plan_text"])
    return plan_name, BdiEvaluation(args, plan_text, run, request, run.resume_path)


async def until_over(agent: LearningAgent, world: World, stop: asyncio.Future[int]) -> int:
    over = asyncio.create_task(agent.done.wait())
    lost = asyncio.create_task(agent.disconnected.wait())
    ends: set[asyncio.Future[Any]] = {over, lost, stop}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    await cancel_and_wait(over, lost)
    agent.pause_bdi()
    if world.ended == FINISHED:
        return 0
    kept = world.keep()
    world.run.finish()
    if world.ended:
        raise PlansError(world.ended)
    if stop.done():
        echo(f"{signal.Signals(stop.result()).name} at step {world.step:,}: {kept}")
        return 128 + stop.result()
    why = await agent.account.trouble() or f"{agent.account.host}:{agent.account.port} closed the connection"
    raise ServerLostError(f"the agent lost its XMPP server at step {world.step:,}: {why}; {kept}")


async def leave(agent: LearningAgent) -> None:
    """Log out from the server, which may be gone."""
    agent.bdi.kill()
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(LEAVE_SECONDS):
            await agent.stop()


def _on_signal(stop: asyncio.Future[int], number: int) -> None:
    if not stop.done():
        stop.set_result(number)


def read_arguments(words: list[str]) -> tuple[Args, EvaluationRequest | None]:
    parser = argparse.ArgumentParser("runspine.trainers.bdi", description=Args.__doc__)
    parser.add_argument("--env-id", default=Args.env_id)
    parser.add_argument("--env-kwargs", default="{}", help="arguments of gymnasium.make, as JSON")
    parser.add_argument("--seed", type=int, default=Args.seed)
    parser.add_argument("--total-timesteps", type=int, default=Args.total_timesteps)
    parser.add_argument("--params", default="{}", help="everything else, as JSON")
    parser.add_argument("--evaluate", metavar="JSON", help="evaluate the checkpoint of RUNSPINE_RESUME")
    given: dict[str, Any] = vars(parser.parse_args(words))
    evaluate = given.pop("evaluate")
    try:
        request = EvaluationRequest(**json.loads(evaluate)) if evaluate else None
        args = filled({**json.loads(given.pop("params")), **given})
    except ValueError as error:
        sys.exit(str(error))
    if wrong := range_violations(args):
        sys.exit("\n".join(wrong))
    return args, request


def main() -> None:
    logging.getLogger("slixmpp").setLevel(logging.CRITICAL)
    logging.getLogger("spade").setLevel(logging.CRITICAL)
    args, request = read_arguments(sys.argv[1:])
    uvloop.install()
    try:
        code = asyncio.run(run_agent(args, request))
    except (
        PlansError,
        ServerLostError,
        XmppServerError,
        AgentEnvError,
        CheckpointUnusableError,
        runspine.DivergedError,
    ) as error:
        sys.stderr.write(f"{error}\n")
        code = FAILED
    sys.stdout.flush()
    # The libraries leave threads and sockets that a normal exit would wait for.
    os._exit(code)


if __name__ == "__main__":
    main()
