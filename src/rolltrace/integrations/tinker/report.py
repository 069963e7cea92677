"""Whether tinker-cookbook, here, can be traced: for `rolltrace doctor --tinker`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from rolltrace._frameworks import Verdict
from rolltrace.integrations.tinker import status

_LOOK = """
import json
from importlib import import_module
from rolltrace.integrations.tinker import status
from rolltrace.integrations.tinker.plugin import SEAMS, install_when_imported
install_when_imported()
for name in SEAMS:
    try:
        import_module(name)
    except ImportError as fault:
        status.problems.setdefault(name, f"cannot be imported: {fault}")
print("\\n" + json.dumps([status.changed, status.problems]))
"""
_LOOK_SEC = 300


def examine() -> Iterator[Verdict]:
    """Check the tinker-cookbook of this environment, in a process of its own: as a training script would import it."""
    release, newest = status.cookbook_version(), f"pip install 'tinker-cookbook=={status.TESTED[-1]}'"
    if release is None:
        yield Verdict(False, "tinker-cookbook is not installed for this Python", f"{sys.executable} -m {newest}")
        return
    if release in status.TESTED:
        yield Verdict(True, f"tinker-cookbook {release}, with which this rolltrace was tested")
    else:
        tested = ", ".join(status.TESTED)
        yield Verdict(False, f"tinker-cookbook {release} was not tested with this rolltrace, but {tested} was", newest)
    try:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", _LOOK],
            capture_output=True,
            text=True,
            timeout=_LOOK_SEC,
            check=False,
        )
        changed, problems = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        what = f"import tinker_cookbook took over {_LOOK_SEC} seconds"
        yield Verdict(False, what, "python -X importtime -c 'import tinker_cookbook.rl.train'")
        return
    except ValueError:
        last_line = done.stderr.strip().rpartition("\n")[2] or "no error message"
        yield Verdict(False, f"tinker-cookbook cannot be imported: {last_line}", "python -c 'import tinker_cookbook'")
        return
    for name, why in problems.items():
        yield Verdict(False, f"{name} cannot be traced: {why}", newest)
    if changed:
        yield Verdict(True, f"install() fits: {len(changed)} modules of tinker-cookbook are traced")
