"""Calls of clients to orchestrators: the methods of the real servicer, run in the orchestrator's process."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import grpc
from grpc.aio import AioRpcError, Metadata

from tests.simulation.loop import NODE, Node
from tests.simulation.world import World


def refused(code: grpc.StatusCode, details: str) -> AioRpcError:
    return AioRpcError(code, Metadata(), Metadata(), details, None)


class SimulatedContext:
    """What a servicer may do to end a call."""

    async def abort(self, code: grpc.StatusCode, details: str = "") -> NoReturn:
        raise refused(code, details)

    async def abort_with_status(self, status: Any) -> NoReturn:
        raise refused(grpc.StatusCode.INVALID_ARGUMENT, status.details)


class Exchange:
    """Which servicer each orchestrator runs, and the calls that wait for it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.servicers: dict[Node, Any] = {}
        self._waiting: dict[Node, list[asyncio.Future[Any]]] = {}

    def serve(self, servicer: Any) -> None:
        """From now on, calls to this process are answered."""
        self.servicers[NODE.get()] = servicer

    def killed(self, node: Node) -> None:
        """Its connections break: nobody knows what became of these calls."""
        self.servicers.pop(node, None)
        lost = refused(grpc.StatusCode.UNAVAILABLE, "connection reset")
        for answered in self._waiting.pop(node, []):
            self.world.loop.after(0.001, _fail, answered, lost)

    async def call(self, name: str, method: str, request: Any, seconds: float) -> Any:
        """One call to the orchestrator of this name."""
        node, client = self.world.nodes[name], NODE.get()
        if node not in self.servicers:
            await asyncio.sleep(0.05)
            raise refused(grpc.StatusCode.UNAVAILABLE, "connection refused")
        loop = self.world.loop
        answered: asyncio.Future[Any] = loop.create_future()
        self._waiting.setdefault(node, []).append(answered)

        async def serve() -> None:
            try:
                answer = await getattr(self.servicers[node], method)(request, SimulatedContext())
            except AioRpcError as error:
                found: Any = error
            except Exception as error:  # noqa: BLE001 - gRPC answers UNKNOWN, and the service goes on
                self.world.problem(f"{method} failed: {type(error).__name__}: {error}")
                found = refused(grpc.StatusCode.UNKNOWN, str(error))
            else:
                found = type(answer).FromString(answer.SerializeToString())
            settle = _fail if isinstance(found, AioRpcError) else _answer
            self.world.network.send(name, client.name, lambda: loop.within(client, settle, answered, found))

        def arrive() -> None:
            if node in self.servicers:
                loop.spawn(node, serve())

        self.world.network.send(client.name, name, arrive)
        try:
            async with asyncio.timeout(seconds):
                return await answered
        except TimeoutError:
            raise refused(grpc.StatusCode.DEADLINE_EXCEEDED, "no reply") from None


class SimulatedStub:
    """The stub of TrainerService for one orchestrator."""

    def __init__(self, exchange: Exchange, name: str) -> None:
        self._exchange = exchange
        self._name = name

    def __getattr__(self, method: str) -> Any:
        async def call(request: Any, timeout: float = 10.0, **_: Any) -> Any:
            return await self._exchange.call(self._name, method, request, timeout)

        return call


def _answer(future: asyncio.Future[Any], answer: Any) -> None:
    if not future.done():
        future.set_result(answer)


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
