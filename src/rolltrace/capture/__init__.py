"""Make records. The hot path: nothing here waits, opens a connection or imports a vendor's library."""

from rolltrace.capture.op import rollout_trace_op
from rolltrace.capture.propagate import current_context, follow_threads, use_context
from rolltrace.capture.recorder import SAMPLE_LIMIT, Recorder, Sink
from rolltrace.capture.sampling import choose_samples
from rolltrace.capture.trajectory import Trajectory, rollout_trace_attr

__all__ = [
    "SAMPLE_LIMIT",
    "Recorder",
    "Sink",
    "Trajectory",
    "choose_samples",
    "current_context",
    "follow_threads",
    "rollout_trace_attr",
    "rollout_trace_op",
    "use_context",
]
