"""Shape: journals become the store, outside the rollout's process."""

from rolltrace.drain.drainer import Drainer
from rolltrace.drain.redact import Redactor
from rolltrace.drain.rows import Row, RowMaker

__all__ = ["Drainer", "Redactor", "Row", "RowMaker"]
