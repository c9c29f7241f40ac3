"""The replicas of one stream: a leader, proposals, commits, followers that lag, elections.

Raft itself is taken as right: there is one order of commits. What a client can see of it is modelled: replies
that are lost with a leader, proposals of a deposed leader that survive or not, a deposed leader that still
answers from its past, followers that show less than was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.simulation.nats.stream import StreamStore

if TYPE_CHECKING:
    from tests.simulation.nats.cluster import Cluster, Server

ELECTION_SECONDS = (4.0, 9.0)
HANDOVER_SECONDS = (0.05, 1.0)
# For how long a leader that was cut off may still answer as one, and once the new one reaches it.
BELIEF_SECONDS = (0.0, 10.0)
CONTACT_SECONDS = (0.0, 1.0)
COMMIT_SECONDS = (0.0002, 0.003)
LAG_SECONDS = (0.0002, 0.003)
STALL_SECONDS = (0.02, 0.4)
BEHIND_SECONDS = (0.3, 2.5)


@dataclass(slots=True, eq=False)
class Proposal:
    """A change that the leader has sent to its followers and not committed yet."""

    term: int
    # Applies the change and returns what to do for the one who asked, when the leader is still there.
    commit: Callable[[], Callable[[], None]]
    message_id: str = ""
    subject: str = ""
    replicated: bool = False


class Group:
    """One stream, or the meta group that decides on streams (it has a store without messages)."""

    def __init__(self, cluster: Cluster, name: str, members: list[Server], store: StreamStore) -> None:
        self.cluster = cluster
        self.name = name
        self.members = members
        self.store = store
        self.term = 1
        self.leader: Server | None = cluster.random.choice(members)
        self.applied = {server.name: 0 for server in members}
        self.pending: list[Proposal] = []
        # Deposed leaders, and until when each of them answers as a leader.
        self.beliefs: dict[str, float] = {}
        self._electing = False
        self._catching: set[str] = set()

    @property
    def alone(self) -> bool:
        return len(self.members) == 1

    def healthy(self, server: Server) -> bool:
        """Whether a server has a majority."""
        if not server.alive or server.frozen:
            return False
        links = self.cluster.network.linked
        near = [m for m in self.members if m.alive and not m.frozen and links(server.name, m.name)]
        return len(near) * 2 > len(self.members)

    def answers_as_leader(self, server: Server) -> bool:
        if not server.alive:
            return False
        return server is self.leader or self.beliefs.get(server.name, 0.0) > self.cluster.loop.now

    def propose(self, server: Server, proposal: Proposal) -> None:
        """A change by a server that takes itself for the leader; a deposed one's is never committed."""
        if server is not self.leader:
            self.cluster.reached("nats.proposal_by_deposed_leader")
            return
        if self.alone:
            self._settle([proposal])
            return
        proposal.term = self.term
        self.pending.append(proposal)
        delay = self.cluster.random.uniform(*COMMIT_SECONDS)
        self.cluster.loop.after(delay / 2, self._replicate, proposal)
        self.cluster.loop.after(delay, self._try_commit, proposal)

    def _replicate(self, proposal: Proposal) -> None:
        if self.leader is not None and proposal.term == self.term and self.healthy(self.leader):
            proposal.replicated = True

    def _try_commit(self, proposal: Proposal) -> None:
        if proposal.term != self.term or self.leader is None or proposal not in self.pending:
            return
        if not self.healthy(self.leader):
            self.cluster.loop.after(self.cluster.random.uniform(0.05, 0.2), self._try_commit, proposal)
            return
        count = self.pending.index(proposal) + 1
        done, self.pending = self.pending[:count], self.pending[count:]
        self._settle(done)

    def _settle(self, done: list[Proposal]) -> None:
        leader = self.leader
        for proposal in done:
            answer = proposal.commit()
            if leader is not None:
                self.applied[leader.name] = self.store.committed
                answer()
        self._spread()
        if leader is not None:
            self.cluster.pump(self.name, leader)

    def _spread(self) -> None:
        """Let followers apply what was committed, each in its own time."""
        for server in self.members:
            if server is not self.leader and server.name not in self._catching:
                self._catching.add(server.name)
                self.cluster.loop.after(self._lag(server), self._catch_up, server)

    def _lag(self, server: Server) -> float:
        if server.behind:
            return self.cluster.random.uniform(*BEHIND_SECONDS)
        stalled = self.cluster.random.random() < self.cluster.stall_share
        return self.cluster.random.uniform(*(STALL_SECONDS if stalled else LAG_SECONDS))

    def _catch_up(self, server: Server) -> None:
        self._catching.discard(server.name)
        leader = self.leader
        if leader is None or not server.alive or server.frozen:
            return
        if not self.cluster.network.linked(leader.name, server.name):
            return
        self.applied[server.name] = self.store.committed
        self.cluster.pump(self.name, server)

    # Leaders.

    def _end_beliefs(self) -> None:
        """A deposed leader that the new one reaches steps down."""
        if self.leader is None:
            return
        for server in self.members:
            until = self.beliefs.get(server.name)
            if (
                until is None
                or server.frozen
                or not self.cluster.network.linked(server.name, self.leader.name)
            ):
                continue
            soon = self.cluster.loop.now + self.cluster.random.uniform(*CONTACT_SECONDS)
            self.beliefs[server.name] = min(until, soon)

    def check(self) -> None:
        """After any change of who is up and who reaches whom."""
        self._end_beliefs()
        if self.leader is not None and self.healthy(self.leader):
            self._spread()
            for proposal in self.pending[-1:]:
                self._try_commit(proposal)
            return
        if self.alone:
            return
        if self.leader is not None and not self.leader.alive:
            self._depose()
        self._elect_after(self.cluster.random.uniform(*ELECTION_SECONDS))

    def step_down(self) -> None:
        """The leader hands over, as before a restart."""
        if self.alone or self.leader is None:
            return
        self._depose()
        self._elect_after(self.cluster.random.uniform(*HANDOVER_SECONDS))

    def _depose(self) -> None:
        self.leader = None
        self.term += 1

    def _elect_after(self, seconds: float) -> None:
        if not self._electing:
            self._electing = True
            self.cluster.loop.after(seconds, self._elect)

    def _elect(self) -> None:
        self._electing = False
        before = self.leader
        if before is not None and self.healthy(before):
            return
        able = [server for server in self.members if self.healthy(server)]
        if not able:
            self._elect_after(self.cluster.random.uniform(0.5, 2.0))
            return
        if before is not None:
            until = self.cluster.random.uniform(*BELIEF_SECONDS)
            self.beliefs[before.name] = self.cluster.loop.now + until
            self._depose()
        self.leader = self.cluster.random.choice(able)
        self.term += 1
        self.beliefs.pop(self.leader.name, None)
        self.cluster.loop.note(f"leader of {self.name} is {self.leader.name}")
        self.cluster.reached("nats.election")
        self._inherit()
        self._end_beliefs()

    def _inherit(self) -> None:
        """A new leader has everything committed, and as much of the rest as had reached it."""
        reached = 0
        while reached < len(self.pending) and self.pending[reached].replicated:
            reached += 1
        kept = self.cluster.random.randint(0, reached)
        if kept:
            self.cluster.reached("nats.proposal_survived_its_leader")
        if kept < len(self.pending):
            self.cluster.reached("nats.proposal_lost_with_its_leader")
        survivors, self.pending = self.pending[:kept], []
        leader = self.leader
        assert leader is not None
        for proposal in survivors:
            proposal.commit()
        self.applied[leader.name] = self.store.committed
        self._spread()
        self.cluster.pump(self.name, leader)
