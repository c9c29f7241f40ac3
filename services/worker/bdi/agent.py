"""The SPADE agent around a program: messages in, full speed when busy, at rest when idle."""

from __future__ import annotations

import asyncio

import agentspeak
from spade.template import Template
from spade_bdi.bdi import BDIAgent
from spade_bdi.bdi_behaviour import BDIBehaviour

from services.worker.bdi.account import Account
from services.worker.bdi.program import Program

# How long the plans run before messages and signals are looked at again.
SLICE_SECONDS = 0.02
# Longest rest of an agent with nothing to do: a message ends it at once.
REST_SECONDS = 1.0


class Living(BDIBehaviour):  # type: ignore[misc]
    """The library's loop asks for messages and takes one step of the plans each time round, for ever.

    Here the plans get a slice of time, and an agent with nothing to do sleeps until a message comes
    or a `.wait` is over: the library's loop takes a whole core for that.
    """

    agent: LearningAgent

    async def run(self) -> None:
        program, world = self.agent.program, self.agent.program.world
        busy = False
        try:
            await super().run()  # a message, if there is one
            busy = program.live(SLICE_SECONDS)
        except (agentspeak.AslError, agentspeak.AggregatedError) as error:
            world.ended = f"the plans fail at step {world.step:,}: {program.explained(error)}"
        if not busy and not world.ended and self.agent.alone and program.mind.at_rest:
            # Nobody can send a message that would set it going again.
            world.ended = f"the plans have nothing left to do at step {world.step:,}, before .finish"
        if world.ended:
            self.agent.done.set()
            self.kill()
        elif not busy:
            await self._rest(program.rest_seconds(REST_SECONDS))

    async def _rest(self, seconds: float) -> None:
        # Otherwise what was said last would wait for the next step, which may be far.
        self.agent.program.world.run.flush()
        message = await self.receive(timeout=seconds) if seconds else None
        if message is not None:
            self.queue.put_nowait(message)


class LearningAgent(BDIAgent):  # type: ignore[misc]
    """`alone`: on a server where nobody else has an account."""

    def __init__(self, account: Account, program: Program, *, alone: bool) -> None:
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
        # The library makes its own behaviour in the constructor; ours takes its place.
        super().add_behaviour(Living() if type(behaviour) is BDIBehaviour else behaviour, template)

    def _load_asl(self) -> None:
        """The program is read already."""
        self.bdi_env, self.bdi_agent = self.program.environment, self.program.agent
        self.bdi_agent.name = self.jid
        self.resume_bdi()

    async def _async_connect(self) -> None:
        # The library connects to the address' domain, which need not be where the server is.
        connect = self.client.connect
        self.client.connect = lambda **_: connect(host=self.account.host, port=self.account.port)
        await super()._async_connect()

    @property
    def disconnected(self) -> asyncio.Event:
        event: asyncio.Event = self.client.disconnected_event
        return event
