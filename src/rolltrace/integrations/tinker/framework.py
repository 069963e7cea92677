"""What the rest of rolltrace has to know of tinker-cookbook."""

from __future__ import annotations

from collections.abc import Iterator

from rolltrace._frameworks import Framework, Verdict


def examine() -> Iterator[Verdict]:
    """For `rolltrace doctor --tinker`."""
    from rolltrace.integrations.tinker import report  # only when it is asked for

    return report.examine()


FRAMEWORK = Framework("tinker", examine)
