"""rolltrace run: the program is what it would be without us, and traced, with all Python processes that it starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rolltrace.query import open_store

WHO = """
import json, sys
print(json.dumps([sys.argv, __name__, sys.path, sys.modules["__main__"].__spec__ is not None]))
"""
ROLLOUTS = """
import multiprocessing, subprocess, sys
from concurrent.futures import ProcessPoolExecutor

import rolltrace

@rolltrace.rollout_trace_op
def work(name):
    return name

def rollout(name):
    with rolltrace.rollout_trace_attr(name, step=1):
        work(name)

if __name__ == "__main__":
    rollout("main")
    for method in ("spawn", "forkserver", "fork"):
        child = multiprocessing.get_context(method).Process(target=rollout, args=(method,))
        child.start()
        child.join()
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        pool.submit(rollout, "executor").result()
    subprocess.run([sys.executable, "-c", "import train; train.rollout('subprocess')"], check=True)
"""
INTEGRATION = """
from rolltrace import rollout_trace_op
from rolltrace.integrations.after_import import after_import, waiting_for

def change(module):
    module.generate = rollout_trace_op(kind="llm")(module.generate)

@waiting_for("toy_framework")
def install():
    after_import("toy_framework", change)
"""


def run(folder: Path, *words: str, variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ROLLTRACE_")}
    environment |= {"ROLLTRACE_STORE": str(folder / "store"), "ROLLTRACE_DRAIN": "off", **(variables or {})}
    return subprocess.run(
        [sys.executable, "-m", "rolltrace", "run", *words],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def told_by_program(stderr: str) -> str:
    """Without the line at the end that says what was recorded."""
    *lines, last = stderr.splitlines(keepends=True)
    assert last.startswith("rolltrace: "), stderr
    return "".join(lines)


def plainly(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The same without us."""
    return subprocess.run([sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "words", [["who.py", "--store", "x", "-m", "--"], ["-m", "who", "--order", "-m", "--", "x", "--"], ["folder"]]
)
def test_a_program_sees_what_python_itself_would_show_it(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "who.py").write_text(WHO)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "__main__.py").write_text(WHO)
    traced = run(tmp_path, *words)
    assert (traced.returncode, told_by_program(traced.stderr)) == (0, "")
    assert traced.stdout == plainly(tmp_path, *words).stdout


def test_every_python_process_of_the_program_is_traced_as_one_run(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ROLLOUTS)
    assert run(tmp_path, "--project", "math", "train.py").returncode == 0
    rows = open_store(tmp_path / "store").trajectories().rows()
    assert {row["sample_index"] for row in rows} == {"main", "spawn", "forkserver", "fork", "executor", "subprocess"}
    assert len(rows) == 6
    assert {(row["project"], row["experiment"]) for row in rows} == {("math", "train")}
    assert len({row["run"] for row in rows}) == 1


@pytest.mark.parametrize("is_one_wrong", [False, True])
def test_integrations_are_installed_before_the_program_imports_their_framework(
    tmp_path: Path, is_one_wrong: bool
) -> None:
    (tmp_path / "toy-1.0.dist-info").mkdir()
    (tmp_path / "toy-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    points = (
        "[rolltrace.integrations]\ntoy = toy_integration:install\n" + "wrong = toy_integration:missing\n" * is_one_wrong
    )
    (tmp_path / "toy-1.0.dist-info" / "entry_points.txt").write_text(points)
    (tmp_path / "toy_integration.py").write_text(INTEGRATION)
    (tmp_path / "toy_framework.py").write_text("def generate(prompt):\n    return prompt.upper()\n")
    (tmp_path / "train.py").write_text("from toy_framework import generate\nprint(generate('a'))\n")
    # In a process that the program starts too, and one that fails is not in the way.
    words = ["--", "sh", "-c", f"{sys.executable} train.py && {sys.executable} -m train"]
    traced = run(tmp_path, *words, variables={"PYTHONPATH": str(tmp_path), "ROLLTRACE_STRICT": ""})
    assert (traced.returncode, traced.stdout) == (0, "A\nA\n"), traced.stderr
    assert ("integration toy_integration:missing" in traced.stderr) == is_one_wrong
    ops = open_store(tmp_path / "store").sql("SELECT name, kind FROM spans").rows()
    assert [tuple(op.values()) for op in ops] == [("generate", "llm")] * 2


def test_a_process_that_uses_no_framework_loads_nothing_of_ours(tmp_path: Path) -> None:
    (tmp_path / "who.py").write_text("import json, sys\nprint([name for name in sys.modules if 'rolltrace' in name])\n")
    assert run(tmp_path, "who.py").stdout == "[]\n"


def test_exit_codes_signals_and_tracebacks_are_those_of_the_program(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("import sys\nsys.exit(7)\n")
    (tmp_path / "dies.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    (tmp_path / "fails.py").write_text("def f():\n    raise ValueError('no')\nf()\n")
    assert run(tmp_path, "ends.py").returncode == 7
    assert run(tmp_path, "dies.py").returncode == -signal.SIGTERM
    failed = run(tmp_path, "fails.py")
    assert (failed.returncode, told_by_program(failed.stderr)) == (1, plainly(tmp_path, "fails.py").stderr)


def test_what_cannot_be_run_is_said_as_python_or_a_shell_says_it(tmp_path: Path) -> None:
    for words in (["-m", "no_such_module"], ["no_such_script.py"]):
        traced, plain = run(tmp_path, *words), plainly(tmp_path, *words)
        assert (traced.returncode, told_by_program(traced.stderr)) == (plain.returncode, plain.stderr)
    assert run(tmp_path, "--", "no-such-command").returncode == 127
    assert run(tmp_path, "--", str(tmp_path)).returncode == 126


# One process for all of them: most of a command's time is Python's start.
MISTAKES = """
import contextlib, io, json, sys
from rolltrace.cli import main
for words in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as told:
        try:
            code = main(["run", *words])
        except SystemExit as stopped:
            code = stopped.code
    print(json.dumps([code, told.getvalue()]))
"""


def test_a_mistake_is_told_before_anything_runs(tmp_path: Path) -> None:
    mistakes: list[tuple[list[str], int, str]] = [
        ([], 2, "name a script, a module with -m, or a command after --"),
        (["-m"], 2, "-m needs the name of a module"),
        (["--"], 2, "-- needs a command after it"),
        (["ls", "-l"], 1, "write: rolltrace run -- ls -l"),
        (["--project", "", "who.py"], 1, "project_name must be"),
    ]
    command = [sys.executable, "-c", MISTAKES, json.dumps([words for words, _, _ in mistakes])]
    environment = {**os.environ, "ROLLTRACE_STORE": str(tmp_path / "store")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    for (_, code, message), line in zip(mistakes, done.stdout.splitlines(), strict=True):
        found, told = json.loads(line)
        assert (found, message in told) == (code, True), told
    assert not (tmp_path / "store").exists()


def test_tracing_that_is_turned_off_is_told(tmp_path: Path) -> None:
    told = run(tmp_path, "who.py", variables={"ROLLTRACE_BACKEND": "off"})
    assert (told.returncode, "unset it" in told.stderr) == (1, True)


def test_a_sitecustomize_of_the_users_own_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('mine')\n")
    (tmp_path / "who.py").write_text("import sitecustomize\nprint(sitecustomize.__file__)\n")
    traced = run(tmp_path, "who.py", variables={"PYTHONPATH": str(tmp_path)})
    assert traced.stdout == f"mine\nmine\n{tmp_path / 'sitecustomize.py'}\n"  # once by the command itself


def test_import_hooks_of_the_program_run_once_beside_ours(tmp_path: Path) -> None:
    pytest.importorskip("wrapt")
    (tmp_path / "hooks.py").write_text(
        "import wrapt\n"
        "seen = []\n"
        "for name in ('openai', 'openai._base_client'):\n"
        "    wrapt.register_post_import_hook(lambda module: seen.append(module.__name__), name)\n"
        "import openai\n"
        "print(sorted(seen))\n"
    )
    done = run(tmp_path, "hooks.py")
    assert (done.returncode, done.stdout) == (0, "['openai', 'openai._base_client']\n"), done.stderr


def test_a_python_without_rolltrace_runs_as_ever(tmp_path: Path) -> None:
    bare: Any = getattr(sys, "_base_executable", sys.executable)
    program = "import sys; print('rolltrace' in sys.modules)"
    traced = run(tmp_path, "--", bare, "-S", "-c", program)
    assert (traced.returncode, traced.stdout, traced.stderr) == (0, "False\n", "")
    traced = run(tmp_path, "--", bare, "-c", "print('as ever')")
    assert (traced.returncode, traced.stdout, told_by_program(traced.stderr)) == (0, "as ever\n", "")


def said(folder: Path, program: str, **variables: str) -> str:
    """The last line on stderr of a program."""
    (folder / "program.py").write_text(program)
    done = run(folder, "program.py", variables=variables)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1] if done.stderr else ""


def library(folder: Path, name: str) -> None:
    """A package of this name, which makes no calls."""
    place = folder.joinpath(*name.split("."))
    place.mkdir(parents=True)
    (place / "__init__.py").write_text("")


def test_what_was_recorded_is_said_at_the_end(tmp_path: Path) -> None:
    program = """
import multiprocessing, rolltrace
@rolltrace.rollout_trace_op(kind="llm")
def ask(n): return "x"
def rollout(n):
    with rolltrace.rollout_trace_attr(step=1, sample_index=n):
        [ask(turn) for turn in range(4)]
if __name__ == "__main__":
    rollout(0)
    rollout(1)
    child = multiprocessing.get_context("spawn").Process(target=rollout, args=(2,))
    child.start(); child.join()
"""
    assert said(tmp_path, program) == f"rolltrace: 3 trajectories, 12 model calls recorded in {tmp_path / 'store'}"
    one = "import rolltrace\nwith rolltrace.rollout_trace_attr(step=2): rolltrace.rollout_trace_op(print)('a')\n"
    assert "1 trajectory, 0 model calls recorded" in said(tmp_path, one)  # of this run alone


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "google.genai",
            ["0 model calls", "openai", "not imported", "google-genai is not supported", "rolltrace proxy"],
        ),
        ("dspy", ["0 model calls", "dspy is not supported", "rolltrace proxy"]),
        ("huggingface_hub.inference._client", ["huggingface_hub.InferenceClient is not supported", "rolltrace proxy"]),
        ("trl.experimental.async_grpo", ["TRL's AsyncGRPOTrainer is not supported"]),
        ("httpx", ["0 model calls", "requests by httpx are not recorded", "rolltrace proxy"]),
        ("openai", ["0 model calls", "openai made none"]),
    ],
)
@pytest.mark.parametrize("in_child", [False, True])
def test_nothing_recorded_is_said_with_the_reason(tmp_path: Path, name: str, words: list[str], in_child: bool) -> None:
    library(tmp_path, name)
    program = f"import {name}\n"
    if in_child:
        program = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {program!r}], check=True)\n"
    (tmp_path / "tmp").mkdir()
    line = said(tmp_path, program, PYTHONPATH=str(tmp_path), TMPDIR=str(tmp_path / "tmp"))
    assert [word for word in words if word not in line] == [], line
    assert list((tmp_path / "tmp").glob("rolltrace-run-*")) == []


def test_a_quiet_run_says_nothing_at_the_end(tmp_path: Path) -> None:
    assert said(tmp_path, "print(1)\n", ROLLTRACE_QUIET="1") == ""
