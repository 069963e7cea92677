"""What was lost, and what was left out because somebody asked for that: the table `losses` counts both."""

from __future__ import annotations

BY_CHOICE = frozenset({"sample_limit", "pruned_payload", "pruned_whole", "retention"})
"""Reasons that somebody chose: a limit of samples, `rolltrace prune`, a retention policy."""

LOST = f"(SELECT * FROM losses WHERE reason NOT IN ({', '.join(repr(each) for each in sorted(BY_CHOICE))}))"
"""The rows of `losses` that nobody asked for, to be selected from."""
