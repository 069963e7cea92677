"""What the rest of rolltrace has to know of TRL."""

from __future__ import annotations

from collections.abc import Iterator

from rolltrace._frameworks import Framework, Verdict
from rolltrace.integrations.releases import Releases

RELEASES = Releases("TRL", "trl", ("1.5.0", "1.10.0", "1.16.0"), option="--trl", with_those_between=True)

_LOOK = """
import json
from trl import GRPOTrainer
from rolltrace.integrations.trl.trainer import missing_seams
print("\\n" + json.dumps(missing_seams(GRPOTrainer)))
"""


def examine() -> Iterator[Verdict]:
    """For `rolltrace doctor --trl`."""
    if (yield from RELEASES.examine()) is None:
        return
    missing = yield from RELEASES.look_inside("from trl import GRPOTrainer", _LOOK)
    if missing:
        what = f"GRPOTrainer has no {', '.join(missing)}, so its rollouts cannot be traced"
        yield Verdict(False, what, RELEASES.install)
    elif missing is not None:
        yield Verdict(True, "GRPOTrainer can be traced")


FRAMEWORK = Framework("trl", examine)
