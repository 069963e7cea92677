"""Checks: problems that rolltrace finds in what it records, one per file."""

from rolltrace.drain.checks.check import Checks, Finding, OpFacts, Past

__all__ = ["Checks", "Finding", "OpFacts", "Past"]
