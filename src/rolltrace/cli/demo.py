"""`rolltrace demo`: a small training run, traced, to look at."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rolltrace._amounts import counted, duration
from rolltrace.cli.command import command, option
from rolltrace.cli.options import STORE, Options
from rolltrace.cli.serve import has_browser

if TYPE_CHECKING:
    from rolltrace.demo import DemoSettings

_STORE = "rolltrace-demo"
_SLOW = 0.03
"""Seconds a token takes with --slow."""


@command(
    "run a small training and look at it",
    "Trains a policy of a few hundred weights with GRPO, in seconds: it learns to use a calculator over several turns, "
    "and then finds a fault that was planted in its reward. All of it is traced, from several worker processes, one of "
    "which is killed on purpose. The same seed makes the same tokens and rewards. Without a store it records into "
    f"./{_STORE}.",
    option("--steps N", "training steps (default: 30)", type=click.IntRange(min=1), default=30),
    option("--seed N", "another seed, another run (default: 1)", default=1),
    STORE,
    option("--slow", "as slow as a model, to watch the live page"),
    option("--no-view", "do not open the viewer at the end"),
    epilog="example: rolltrace demo --slow, and in a second terminal: rolltrace live --store rolltrace-demo",
)
def demo(options: Options) -> int:
    from rolltrace.demo import DemoSettings, train

    settings = DemoSettings(
        Path(options.store or _STORE).expanduser(), options.steps, options.seed, pause=_SLOW if options.slow else 0.0
    )
    print(
        f"GRPO on two-step sums with a calculator: {counted(settings.steps, 'step')}, {settings.samples} samples "
        f"a step, {settings.rollouts} rollouts a sample, {settings.workers} workers\n"
    )
    print("step  reward  correct  validation", flush=True)
    began, rollouts = time.monotonic(), 0
    for step in train(settings):
        rollouts += step.rollouts
        if step.validation is not None or step.killed or settings.pause:
            validation = "" if step.validation is None else f"{step.validation:10.2f}"
            remark = "  a worker is killed (kill -9) in the middle of a rollout" if step.killed else ""
            print(f"{step.number:4}  {step.reward:6.2f}  {step.correct:7.2f}  {validation:>10}{remark}", flush=True)
    _summary(settings, rollouts, time.monotonic() - began)
    if not options.no_view and has_browser():
        from rolltrace.cli import main

        return main(["view", "--store", str(settings.store)])
    return 0


def _summary(settings: DemoSettings, rollouts: int, seconds: float) -> None:
    from rolltrace.cli import main
    from rolltrace.demo import EXPERIMENT, PROJECT
    from rolltrace.query import open_store

    place = ["--store", str(settings.store)]
    print(flush=True)
    main(["plot", *place, "--project", PROJECT, "--experiment", EXPERIMENT, "--of", "reward"])
    with open_store(settings.store) as store:
        whole = store.trajectories(project=PROJECT, experiment=EXPERIMENT, where="status = 'ok'")
        cut_off = store.trajectories(project=PROJECT, experiment=EXPERIMENT, where="status = 'interrupted'")
        lost = rollouts - len(whole) - len(cut_off)
        steps = [row for row in store.steps(project=PROJECT, experiment=EXPERIMENT) if not row["validate"]]
        (meaning,) = store.pass_meanings(project=PROJECT, experiment=EXPERIMENT)
    passed, scored = (sum(row[name] for row in steps) for name in ("passed", "scored"))
    command = f"{_command()} {{}} --store {shlex.quote(str(settings.store))}"
    print(
        f"\n{counted(rollouts, 'rollout')} in {duration(seconds)}: {len(whole)} whole, {len(cut_off)} cut off by the "
        f"kill and kept up to the last op, {lost} lost.\n"
        f"{passed} of {scored} training rollouts passed ({passed / scored:.2f}); {meaning.text}.\n"
        "The reward goes on rising when nearly all answers are right. Why? Try:\n\n"
        f"  {command.format('plot --of terms')}\n"
        f"  {command.format(f'diff --step {settings.steps} --sample {settings.samples_of(settings.steps)[0]}')}\n"
        f"  {command.format('view')}\n",
        flush=True,
    )


def _command() -> str:
    """`rolltrace`, as it can be typed here: beside this Python, if that is in no active environment."""
    beside = os.path.join(os.path.dirname(sys.executable), "rolltrace")
    return "rolltrace" if shutil.which("rolltrace") or not os.path.exists(beside) else os.path.relpath(beside)
