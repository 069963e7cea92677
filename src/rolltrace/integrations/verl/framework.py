"""What the rest of rolltrace has to know of verl, which hides what goes wrong with a plug-in: so we keep it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from rolltrace._frameworks import ConfigKeys, Framework, Verdict
from rolltrace.integrations.releases import Releases, numbers

PLUGIN = "rolltrace.integrations.verl.plugin"
GROUP = "verl.plugins"
NAME = "rolltrace"
PLUGINS_SINCE = "0.9.0"
"""The first release of verl that looks for plug-ins by itself."""
MODULES = "VERL_USE_EXTERNAL_MODULES"
"""The variable that names modules for verl to import, in all releases that fit."""
_CORE = ("verl.utils.rollout_trace", "verl.experimental.agent_loop.agent_loop")
# Releases before the first have other workers, and do not fit.
RELEASES = Releases(
    "verl",
    "verl",
    ("0.7.1", "0.8.0", "0.9.0", "0.9.1"),
    option="--verl",
    needs_oldest=True,
    must_come_later=(*_CORE, "verl.tools.base_tool"),
)

_LOOK = f"""
import json, sys
import verl
from rolltrace.integrations.verl.framework import RELEASES
why = None
if {PLUGIN!r} not in sys.modules:
    try:
        __import__({PLUGIN!r})
        why = "unknown reason: it can be imported by itself"
    except Exception as error:
        why = f"{{type(error).__name__}}: {{error}}"
for name in {_CORE!r}:
    try:
        __import__(name)
    except ImportError as error:
        RELEASES.problems.setdefault(name, f"cannot be imported: {{error}}")
print("\\n" + json.dumps([why, RELEASES.changed, RELEASES.too_early, RELEASES.problems]))
"""


def examine() -> Iterator[Verdict]:
    """For `rolltrace doctor --verl`: look as a worker would import it."""
    version = yield from RELEASES.examine()
    if version is None:
        return
    hindrance = _find_hindrance(version)
    if hindrance is not None:
        yield hindrance
        return
    seen = yield from RELEASES.look_inside("import verl", _LOOK)
    if seen is None:
        return
    not_loaded, changed, too_early, problems = seen
    if not_loaded:
        again = f"{sys.executable} -m pip install --force-reinstall rolltrace"
        yield Verdict(False, f"verl did not load the plug-in: {not_loaded}", again)
        return
    yield Verdict(True, f"verl loads the plug-in; {len(changed)} of its modules are traced")
    for name in too_early:
        other = "see which plug-in or VERL_USE_EXTERNAL_MODULES imports it, and load that one later"
        yield Verdict(False, f"{name} was imported before the plug-in, so part of it may not be traced", other)
    for name, why in problems.items():
        yield Verdict(False, f"{name} cannot be traced: {why}", RELEASES.install)


def _find_hindrance(version: str) -> Verdict | None:
    """Why verl would not even try to load the plug-in."""
    modules = os.environ.get(MODULES, "")
    if PLUGIN in modules.split(","):
        return None
    if numbers(version) < numbers(PLUGINS_SINCE):
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


def warning() -> str | None:
    """verl does not report a plug-in that fails to load, or is switched off."""
    if "verl" in sys.modules and PLUGIN not in sys.modules:
        return "verl is imported, but has not loaded rolltrace's plug-in; see: rolltrace doctor --verl"
    return None


FRAMEWORK = Framework(
    "verl",
    examine,
    config_keys=ConfigKeys(settings=("actor_rollout_ref", "rollout", "trace"), names=("trainer",)),
    warning=warning,
)
