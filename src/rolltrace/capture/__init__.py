"""Make records. The hot path: nothing here waits, opens a connection or imports a vendor's library."""

from rolltrace.capture import scope
from rolltrace.capture.backfill import backfill
from rolltrace.capture.context import context_of, current_context, place_of_context, read_context, use_context
from rolltrace.capture.environment import TracedEnv, trace_env
from rolltrace.capture.failure import describe_failure, status_of
from rolltrace.capture.group import TraceGroup, rollout_trace_group
from rolltrace.capture.numbering import next_rollout_n
from rolltrace.capture.op import rollout_trace_op
from rolltrace.capture.propagate import follow_threads
from rolltrace.capture.recorder import SAMPLE_LIMIT, Recorder, Sink
from rolltrace.capture.sampling import choose_samples, rank_of, sample_text
from rolltrace.capture.score import amend_transition, score
from rolltrace.capture.signature import Call
from rolltrace.capture.span import Span, write_op_end
from rolltrace.capture.stream import StreamSpan
from rolltrace.capture.trajectory import TrajectoryHandle, rollout_trace_attr, write_trajectory_end
from rolltrace.capture.transition import RolloutTrace, encoded_trace
from rolltrace.capture.unscoped import BatchRow, ToldTrajectory
from rolltrace.capture.watch import Converters

__all__ = [
    "SAMPLE_LIMIT",
    "BatchRow",
    "Call",
    "Converters",
    "Recorder",
    "RolloutTrace",
    "Sink",
    "Span",
    "StreamSpan",
    "ToldTrajectory",
    "TraceGroup",
    "TracedEnv",
    "TrajectoryHandle",
    "amend_transition",
    "backfill",
    "choose_samples",
    "context_of",
    "current_context",
    "describe_failure",
    "encoded_trace",
    "follow_threads",
    "next_rollout_n",
    "place_of_context",
    "rank_of",
    "read_context",
    "rollout_trace_attr",
    "rollout_trace_group",
    "rollout_trace_op",
    "sample_text",
    "scope",
    "score",
    "status_of",
    "trace_env",
    "use_context",
    "write_op_end",
    "write_trajectory_end",
]
