"""A test kit: tracing into memory, and the contract that every backend keeps.

    from rolltrace.testing import recording

    def test_search_is_traced():
        with recording() as traced:
            search("rolltrace")
        assert [op.name for op in traced.ops] == ["search"]

Nothing is mocked: these are the real recorder, journal and store.
"""

from rolltrace.testing.contract import BackendContract, Seen, SeenOp
from rolltrace.testing.recording import (
    FakeClock,
    MemorySink,
    Recording,
    Rollouts,
    Said,
    TracedOp,
    TracedTrajectory,
    counting_ids,
    recording,
    rollouts,
)

__all__ = [
    "BackendContract",
    "FakeClock",
    "MemorySink",
    "Recording",
    "Rollouts",
    "Said",
    "Seen",
    "SeenOp",
    "TracedOp",
    "TracedTrajectory",
    "counting_ids",
    "recording",
    "rollouts",
]
