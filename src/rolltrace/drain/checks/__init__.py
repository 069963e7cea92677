"""Checks: problems that rolltrace finds in what it records."""

from rolltrace.drain.checks.check import Finding, OpFacts, Past
from rolltrace.drain.checks.registry import Checks

__all__ = ["Checks", "Finding", "OpFacts", "Past"]
