"""The SPADE agent that runs a program: full speed when busy, asleep when idle."""

from __future__ import annotations

import asyncio

import agentspeak
from spade.template import Template
from spade_bdi.bdi import BDIAgent
from spade_bdi.bdi_behaviour import BDIBehaviour

from runspine.trainers.bdi.account import XmppAccount
from runspine.trainers.bdi.program import Program

# How long the plans run before messages and signals are handled again.
SLICE_SECONDS = 0.02
# Longest sleep of an idle agent; a message ends it at once.
REST_SECONDS = 1.0


class ProgramBehaviour(BDIBehaviour):  # type: ignore[misc]
    """Runs the plans in slices of time.

    An agent with nothing to do sleeps until a message comes or a `.wait` is over. The library's own loop
    polls for messages after every step of the plans, which takes a whole core.
    """

    agent: LearningAgent

    async def run(self) -> None:
        program, world = self.agent.program, self.agent.program.world
        busy = False
        try:
            await super().run()  # a message, if there is one
            busy = program.run_for(SLICE_SECONDS)
        except (agentspeak.AslError, agentspeak.AggregatedError) as error:
            world.ended = f"the plans fail at step {world.step:,}: {program.explained(error)}"
        if not busy and not world.ended and self.agent.alone and program.mind.at_rest:
            # There is no other account whose message could wake it.
            world.ended = f"the plans have nothing left to do at step {world.step:,}, before .finish"
        if world.ended:
            self.agent.done.set()
            self.kill()
        elif not busy:
            await self._rest(program.rest_seconds(REST_SECONDS))

    async def _rest(self, seconds: float) -> None:
        # Otherwise the last lines would wait for the next step, which may be far away.
        self.agent.program.world.run.flush()
        message = await self.receive(timeout=seconds) if seconds else None
        if message is not None:
            self.queue.put_nowait(message)


class LearningAgent(BDIAgent):  # type: ignore[misc]
    """The agent of a run. `alone`: it has the only account of its server."""

    def __init__(self, account: XmppAccount, program: Program, *, alone: bool) -> None:
        self.account, self.program, self.alone = account, program, alone
        self.done = asyncio.Event()
        super().__init__(
            account.jid,
            account.password,
            "",
            program.actions,
            port=account.port,
            verify_security=account.verify,
        )

    def add_behaviour(self, behaviour: object, template: Template | None = None) -> None:
        # The library adds its own behaviour in the constructor; ours replaces it.
        super().add_behaviour(ProgramBehaviour() if type(behaviour) is BDIBehaviour else behaviour, template)

    def _load_asl(self) -> None:
        """Use the program, which is parsed already."""
        self.bdi_env, self.bdi_agent = self.program.environment, self.program.agent
        self.bdi_agent.name = self.jid
        self.resume_bdi()

    async def _async_connect(self) -> None:
        # The library connects to the domain of the address, which need not be the server's host.
        connect = self.client.connect
        self.client.connect = lambda **_: connect(host=self.account.host, port=self.account.port)
        await super()._async_connect()

    @property
    def disconnected(self) -> asyncio.Event:
        event: asyncio.Event = self.client.disconnected_event
        return event
