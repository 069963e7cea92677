"""What the rest of rolltrace has to know of TRL."""

from __future__ import annotations

from collections.abc import Iterator

from rolltrace._frameworks import Framework, Verdict


def examine() -> Iterator[Verdict]:
    """For `rolltrace doctor --trl`."""
    from rolltrace.integrations.trl import report  # only when it is asked for

    return report.examine()


FRAMEWORK = Framework("trl", examine)
