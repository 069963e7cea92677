"""What the rest of rolltrace has to know of tinker-cookbook."""

from __future__ import annotations

from collections.abc import Iterator

from rolltrace._frameworks import Framework, Verdict
from rolltrace.integrations.releases import Releases

RELEASES = Releases("tinker-cookbook", "tinker-cookbook", ("0.5.8",), option="--tinker")

_LOOK = """
import json
from importlib import import_module
from rolltrace.integrations.tinker.framework import RELEASES
from rolltrace.integrations.tinker.plugin import SEAMS, install_when_imported
install_when_imported()
for name in SEAMS:
    try:
        import_module(name)
    except ImportError as error:
        RELEASES.problems.setdefault(name, f"cannot be imported: {error}")
print("\\n" + json.dumps([RELEASES.changed, RELEASES.problems]))
"""


def examine() -> Iterator[Verdict]:
    """For `rolltrace doctor --tinker`."""
    if (yield from RELEASES.examine()) is None:
        return
    seen = yield from RELEASES.look_inside("import tinker_cookbook.rl.train", _LOOK)
    if seen is None:
        return
    changed, problems = seen
    for name, why in problems.items():
        yield Verdict(False, f"{name} cannot be traced: {why}", RELEASES.install)
    if changed:
        yield Verdict(True, f"install() fits: {len(changed)} modules of tinker-cookbook are traced")


FRAMEWORK = Framework("tinker", examine)
