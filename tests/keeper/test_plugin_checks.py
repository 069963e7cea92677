"""Other people's checks: installed_checks packages, run by a real keeper on what it has drained."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace import _guard
from rolltrace.cli import main
from rolltrace.keeper.plugin_checks import PluginChecks, installed_checks
from rolltrace.keeper.process import run_once
from tests.draining import compact, drain
from tests.keeper.conftest import asked

MODULE = """
import sys

def many_searches(trajectory):
    searches = [op for op in trajectory.walk() if op.name == "search"]
    if len(searches) > 1:
        yield "many_searches", {"searches": len(searches), "key": "sk-" + "a1" * 20}, searches[-1].op_id

def slow_start(trajectory):
    return "slow_start" if trajectory.sample_index == 2 else None

def broken(trajectory):
    yield "before_the_fault"
    raise RuntimeError("a bug of theirs")

def leaving(trajectory):
    sys.exit(3)

def careless(trajectory):
    return ["Bad Name", ("fine", {"a": 1}), ("no_dict", [1]), 17, ("fine_too", None)]

no_function = 3
"""

TRACING = """
import sys, rolltrace
rolltrace.init("p", "e", "rolltrace", store=sys.argv[1], drain=sys.argv[2])

@rolltrace.rollout_trace_op(kind="tool")
def search(query):
    return "nothing"

for sample in range(3):
    with rolltrace.rollout_trace_attr(step=1, sample_index=sample):
        for _ in range(sample):
            search("x")
assert rolltrace.flush(60)
sys.stdin.readline()  # a thread of this process may be checking
"""


@rolltrace.rollout_trace_op(kind="tool")
def search(query: str) -> str:
    return "nothing"


class Site:
    """A folder of installed_checks packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.module = f"checks_of_{abs(hash(folder)):x}"  # not yet loaded by a test before
        (folder / f"{self.module}.py").write_text(MODULE)

    def install(self, *names: str, **elsewhere: str) -> None:
        info = self.folder / "my_checks-1.2.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-checks\nVersion: 1.2\n")
        points = {**{name: f"{self.module}:{name}" for name in names}, **elsewhere}
        lines = [f"{name} = {value}\n" for name, value in points.items()]
        (info / "entry_points.txt").write_text("[rolltrace.checks]\n" + "".join(lines))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Also for the processes that a test starts."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]))
    return Site(folder)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def trace(store: Path, **settings: Any) -> None:
    """Three trajectories; the last of them with two searches."""
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off", **settings)
    for sample in range(3):
        with rolltrace.rollout_trace_attr(step=1, sample_index=sample, rollout_n=0):
            for _ in range(sample):
                search("x")
    rolltrace.shutdown()


def flags(store: Path) -> list[tuple[int, str]]:
    rows = asked(store).sql("SELECT sample_index, flag FROM flags ORDER BY ALL").rows()
    return [(int(row["sample_index"]), row["flag"]) for row in rows]


def remembered(store: Path) -> list[Path]:
    return sorted(store.glob("journal/*/*.ended"))


def test_a_plugin_sees_whole_trajectories_and_its_flags_are_as_good_as_ours(site: Site, store: Path) -> None:
    site.install("many_searches", "slow_start")
    trace(store)
    run_once(store)
    assert flags(store) == [(2, "many_searches"), (2, "slow_start")]
    (row,) = asked(store).trajectories(where="flag = 'many_searches'").rows()
    assert (row["sample_index"], row["flags"]) == (2, ["many_searches", "slow_start"])
    trajectory = asked(store).trajectory(row["trajectory_id"])
    first, second = trajectory.findings if trajectory.findings[0]["detail"] else trajectory.findings[::-1]
    assert first["detail"] == {"searches": 2, "key": "[redacted: openai key, 43 chars]"}
    assert (first["op_id"], second["op_id"], second["detail"]) == (trajectory.ops[-1].op_id, None, None)
    assert remembered(store) == []


def test_with_no_plugin_nothing_is_remembered_and_no_store_is_opened(store: Path) -> None:
    trace(store)
    program = (
        "import sys, pathlib\n"
        "from rolltrace.keeper.process import run_once\n"
        "run_once(pathlib.Path(sys.argv[1]))\n"
        "assert 'rolltrace.query.dataset' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program, str(store)], check=True)
    assert remembered(store) == []


@pytest.mark.parametrize("mode", ["process", "thread"])
def test_a_drainer_that_starts_by_itself_runs_them(site: Site, store: Path, mode: str) -> None:
    site.install("many_searches")
    tracing = subprocess.Popen([sys.executable, "-c", TRACING, str(store), mode], stdin=subprocess.PIPE)
    assert tracing.stdin is not None
    while tracing.poll() is None and not (store / "trajectories").exists():
        time.sleep(0.05)
    while not (found := flags(store)) and tracing.poll() is None:
        time.sleep(0.1)
    tracing.communicate(b"\n")
    assert tracing.returncode == 0
    assert found == [(2, "many_searches")]


def test_the_command_line_runs_them(site: Site, store: Path) -> None:
    site.install("many_searches")
    trace(store)
    assert main(["store", "drain", "--once", str(store)]) == 0
    assert flags(store) == [(2, "many_searches")]


def test_what_was_drained_before_a_kill_is_checked_after_it(site: Site, store: Path) -> None:
    site.install("many_searches")
    trace(store)
    drain(store)  # killed here
    assert (flags(store), len(remembered(store))) == ([], 1)
    assert remembered(store)[0].stat().st_mode & 0o777 == 0o600
    run_once(store)
    assert (flags(store), remembered(store)) == ([(2, "many_searches")], [])


@pytest.mark.parametrize("compacted", [False, True])
def test_checking_again_after_a_kill_doubles_nothing(site: Site, store: Path, compacted: bool) -> None:
    site.install("many_searches")
    trace(store)
    plugins = PluginChecks(store)
    drain(store)
    (path,) = remembered(store)
    content = path.read_bytes()
    assert plugins.check_next()
    path.write_bytes(content)  # as if it had been killed before it could remove it
    if compacted:
        trace(store)
        run_once(store)
        compact(store)
        path.write_bytes(content)
    expected = flags(store)
    run_once(store)
    assert flags(store) == expected
    assert len(expected) == (2 if compacted else 1)


@pytest.mark.parametrize(
    ("checks", "found"),
    [
        ("off", []),
        ("tool_error", []),
        ("-many_searches", ["slow_start"]),
        ("slow_start", ["slow_start"]),
        ("-tool_error", ["many_searches", "slow_start"]),
    ],
)
def test_the_setting_is_for_plugins_too(site: Site, store: Path, checks: str, found: list[str]) -> None:
    site.install("many_searches", "slow_start")
    trace(store, limits={"checks": checks})
    run_once(store)
    assert [flag for _, flag in flags(store)] == found


@pytest.mark.parametrize("name", ["broken", "leaving"])
def test_a_plugin_that_fails_costs_its_own_look_only(
    site: Site, store: Path, name: str, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    site.install(name, "many_searches")
    trace(store)
    with caplog.at_level(logging.ERROR, logger="rolltrace"):
        run_once(store)
    found = flags(store)
    assert [flag for _, flag in found].count("check_failed") == 3
    assert (2, "many_searches") in found
    assert ("before_the_fault" in str(found)) == (name == "broken"), "what it said before counts"
    assert len(caplog.records) == 1
    assert _guard.internal_errors[f"plug-in check {name}"] == 3
    assert main(["doctor", str(store), "--json"]) == 1
    problem = next(line for line in map(json.loads, capsys.readouterr().out.splitlines()) if line["level"] == "problem")
    assert problem["check"] == "checks"
    assert problem["what"].startswith(f"{name} failed on 3 trajectories, at last with ")


def test_flags_that_are_none_are_told_and_the_others_kept(site: Site, store: Path) -> None:
    site.install("careless")
    trace(store)
    run_once(store)
    rows = asked(store).sql("SELECT flag, detail FROM flags WHERE sample_index = '0' ORDER BY ALL").rows()
    assert [row["flag"] for row in rows] == ["check_failed", "check_failed", "check_failed", "fine", "fine_too"]
    errors = sorted(json.loads(row["detail"])["error"] for row in rows[:3])
    assert errors[0].startswith("TypeError")
    assert errors[1:] == [
        "TypeError: the detail of the flag no_dict must be a dict, not [1]",
        "ValueError: a flag is named by lower-case words with underscores, not 'Bad Name'",
    ]


def test_plugins_that_cannot_be_loaded_are_told_and_the_others_run(
    site: Site, store: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = {"three": f"{site.module}:no_function", "none": f"{site.module}:missing", "gone": "not_a_module:check"}
    site.install("many_searches", **broken)
    trace(store)
    with caplog.at_level(logging.ERROR, logger="rolltrace"):
        run_once(store)
    assert flags(store) == [(2, "many_searches")]
    assert caplog.text.count("cannot be loaded") == len(broken)
    assert main(["doctor", str(store)]) == 1
    said = capsys.readouterr().out
    assert all(f"the plug-in {name} cannot be loaded: " in said for name in broken)
    assert "plug-ins: many_searches (my-checks 1.2)" in said


def test_doctor_lists_what_is_installed(site: Site, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site.install("many_searches")
    trace(store)
    run_once(store)
    assert [(plugin.name, plugin.package) for plugin in installed_checks()] == [("many_searches", "my-checks 1.2")]
    assert main(["doctor", str(store)]) == 0
    assert "checks built in; plug-ins: many_searches (my-checks 1.2)" in capsys.readouterr().out


def test_a_list_that_cannot_be_read_is_told_and_gone(site: Site, store: Path, caplog: pytest.LogCaptureFixture) -> None:
    site.install("many_searches")
    trace(store)
    plugins = PluginChecks(store)
    drain(store)
    remembered(store)[0].write_bytes(b"\xc1")
    assert plugins.check_next()
    assert "cannot be read" in caplog.text
    assert not plugins.check_next()


def test_a_trajectory_that_is_gone_is_passed_over(site: Site, store: Path) -> None:
    site.install("many_searches")
    trace(store)
    plugins = PluginChecks(store)
    drain(store)
    for table in store.glob("*/_delta_log"):
        shutil.rmtree(table.parent)
    assert plugins.check_next()
    assert flags(store) == []


def test_many_trajectories_are_checked_some_at_a_time(site: Site, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rolltrace.drain.drain_state._MAX_IDS", 10)
    site.install("many_searches")
    rolltrace.init("p", "e", "rolltrace", store=store, drain="off")
    for sample in range(24):
        with rolltrace.rollout_trace_attr(step=sample % 2, sample_index=sample):
            if sample % 8 == 0:
                search("a")
                search("b")
    rolltrace.shutdown()
    plugins = PluginChecks(store)
    drain(store)
    found = []
    while plugins.check_next():
        found.append(len(flags(store)))
    assert found == [2, 3, 3]
    assert sorted(flags(store)) == [(0, "many_searches"), (8, "many_searches"), (16, "many_searches")]
