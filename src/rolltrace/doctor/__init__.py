"""Check a store, or whether a framework can be traced, and say what to do about what is wrong."""

from rolltrace.doctor.examine import examine_framework, examine_store
from rolltrace.doctor.finding import Finding

__all__ = ["Finding", "examine_framework", "examine_store"]
