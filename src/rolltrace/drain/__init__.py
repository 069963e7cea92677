"""Shape: journals become the store, outside the rollout's process."""

from rolltrace.drain.drainer import Drainer
from rolltrace.drain.redact import SECRET_KEYS, SECRET_SHAPES, Redactor
from rolltrace.drain.rows import Row, RowMaker

__all__ = ["SECRET_KEYS", "SECRET_SHAPES", "Drainer", "Redactor", "Row", "RowMaker"]
