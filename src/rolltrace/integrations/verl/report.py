"""Whether verl, here, can be traced: for `rolltrace doctor --verl`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

from rolltrace._frameworks import Verdict
from rolltrace.integrations.verl import status
from rolltrace.integrations.verl.framework import PLUGIN

GROUP = "verl.plugins"
NAME = "rolltrace"
PLUGINS_SINCE = "0.9.0"
"""The first release of verl that looks for plug-ins by itself."""
MODULES = "VERL_USE_EXTERNAL_MODULES"
"""The variable that names modules for verl to import, in all releases that fit."""
_LOOK = """
import json, sys
import verl
from rolltrace.integrations.verl import status
plugin, *modules = sys.argv[1:]
why = None
if not status.loaded:
    try:
        __import__(plugin)
        why = "unknown reason: it can be imported by itself"
    except Exception as fault:
        why = f"{type(fault).__name__}: {fault}"
for name in modules:
    try:
        __import__(name)
    except ImportError as fault:
        status.problems.setdefault(name, f"cannot be imported: {fault}")
print("\\n" + json.dumps([why, status.changed, status.too_early, status.problems]))
"""
_CORE = ("verl.utils.rollout_trace", "verl.experimental.agent_loop.agent_loop")
_LOOK_SEC = 300


def examine() -> Iterator[Verdict]:
    """Check the verl of this environment, in a process of its own: as a worker would import it."""
    version = status.verl_version()
    if version is None:
        yield Verdict(False, "verl is not installed for this Python", f"{sys.executable} -m pip install verl")
        return
    tested, newest = ", ".join(status.TESTED), f"pip install 'verl=={status.TESTED[-1]}'"
    if status.is_older(version, status.TESTED[0]):
        yield Verdict(False, f"verl {version} is too old for this rolltrace, which was tested with {tested}", newest)
        return
    if version in status.TESTED:
        yield Verdict(True, f"verl {version}, with which this rolltrace was tested")
    else:
        yield Verdict(False, f"verl {version} was not tested with this rolltrace, but {tested} were", newest)
    hindrance = _hindrance(version)
    yield from _look_inside() if hindrance is None else [hindrance]


def _hindrance(version: str) -> Verdict | None:
    """Why verl would not even try to load the plug-in."""
    modules = os.environ.get(MODULES, "")
    if PLUGIN in modules.split(","):
        return None
    if status.is_older(version, PLUGINS_SINCE):
        what = f"verl before {PLUGINS_SINCE} finds no plug-ins by itself, and {MODULES} does not name ours"
        names = ",".join(filter(None, [modules, PLUGIN]))
        return Verdict(False, what, f"export {MODULES}={names}   # here and on every node of Ray")
    if not _is_registered():
        again = f"{sys.executable} -m pip install --force-reinstall --no-deps rolltrace"
        return Verdict(False, f"the entry point {NAME} of {GROUP} is not there, so verl cannot find the plug-in", again)
    policy = os.environ.get("VERL_USE_EXTERNAL_PLUGINS", "auto").strip().lower()
    if policy != "auto" and NAME not in [name.strip() for name in policy.split(",")]:
        what = f"VERL_USE_EXTERNAL_PLUGINS={policy} keeps verl from loading the plug-in"
        return Verdict(False, what, "unset VERL_USE_EXTERNAL_PLUGINS, here and on every node of Ray")
    return None


def _is_registered() -> bool:
    from importlib.metadata import entry_points

    return any(point.name == NAME for point in entry_points(group=GROUP))


def _look_inside() -> Iterator[Verdict]:
    command = [sys.executable, "-c", _LOOK, PLUGIN, *_CORE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LOOK_SEC, check=False)
        not_loaded, changed, too_early, problems = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    except subprocess.TimeoutExpired:
        yield Verdict(False, f"import verl took over {_LOOK_SEC} seconds", "python -X importtime -c 'import verl'")
        return
    except (ValueError, IndexError):
        last_line = done.stderr.strip().rpartition("\n")[2] or "no error message"
        yield Verdict(False, f"verl cannot be imported: {last_line}", "python -c 'import verl'")
        return
    if not_loaded:
        again = f"{sys.executable} -m pip install --force-reinstall rolltrace"
        yield Verdict(False, f"verl did not load the plug-in: {not_loaded}", again)
        return
    yield Verdict(True, f"verl loads the plug-in; {len(changed)} of its modules are traced")
    for name in too_early:
        other = "see which plug-in or VERL_USE_EXTERNAL_MODULES imports it, and load that one later"
        yield Verdict(False, f"{name} was imported before the plug-in, so part of it may not be traced", other)
    for name, why in problems.items():
        yield Verdict(False, f"{name} cannot be traced: {why}", f"pip install 'verl=={status.TESTED[-1]}'")
