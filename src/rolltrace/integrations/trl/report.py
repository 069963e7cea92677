"""Whether TRL, here, can be traced: for `rolltrace doctor --trl`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

from rolltrace._frameworks import Verdict
from rolltrace.integrations.trl import status

_LOOK = """
import json
from trl import GRPOTrainer
from rolltrace.integrations.trl.trainer import missing_seams
print("\\n" + json.dumps(missing_seams(GRPOTrainer)))
"""
_LOOK_SEC = 300


def examine() -> Iterator[Verdict]:
    """Check the TRL of this environment, in a process of its own: as a training script would import it."""
    release, newest = status.trl_version(), f"pip install 'trl=={status.TESTED[-1]}'"
    if release is None:
        yield Verdict(False, "TRL is not installed for this Python", f"{sys.executable} -m {newest}")
        return
    tested = f"{status.TESTED[0]} to {status.TESTED[-1]}"
    if status.is_in_range(release):
        yield Verdict(True, f"TRL {release}; this rolltrace was tested with {tested}")
    else:
        yield Verdict(False, f"TRL {release} was not tested with this rolltrace, but {tested} were", newest)
    command = [sys.executable, "-W", "ignore", "-c", _LOOK]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LOOK_SEC, check=False)
        missing = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        yield Verdict(False, f"import trl took over {_LOOK_SEC} seconds", "python -X importtime -c 'import trl'")
        return
    except ValueError:
        last_line = done.stderr.strip().rpartition("\n")[2] or "no error message"
        yield Verdict(False, f"GRPOTrainer cannot be imported: {last_line}", "python -c 'from trl import GRPOTrainer'")
        return
    if missing:
        what = f"GRPOTrainer has no {', '.join(missing)}, so its rollouts cannot be traced"
        yield Verdict(False, what, newest)
    else:
        yield Verdict(True, "GRPOTrainer can be traced")
