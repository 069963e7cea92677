"""Checks: problems that rolltrace finds in what it records."""

from rolltrace.drain.checks.check import Finding, OpFacts, Past
from rolltrace.drain.checks.registry import Checks
from rolltrace.drain.checks.token_columns import is_like_column

__all__ = ["Checks", "Finding", "OpFacts", "Past", "is_like_column"]
