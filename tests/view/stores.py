"""Stores for the viewer's tests, its screenshots and its developers, recorded with rolltrace itself.

    python -m tests.view.stores FOLDER                  several experiments with a bit of everything ("demo")
    python -m tests.view.stores FOLDER --size 20000     one experiment of so many trajectories
    python -m tests.view.stores FOLDER --live           go on recording into it until Ctrl-C, in real time

Times come from a clock of our own, so that ops take as long as real ones would.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import rolltrace
from rolltrace.capture import scope
from tests.draining import drain
from tests.view.rollouts import BEGIN_NS, SECOND, Clock, Message, Rollouts
from tests.view.texts import HOSTILE, QUESTIONS

PROJECT, EXPERIMENT = "maths", "grpo-7b"
"""The experiment with a bit of everything."""
BIG = ("bench", "twenty-thousand")


@contextmanager
def recording(store: Path, project: str, experiment: str, run: str, rollouts: Rollouts) -> Iterator[None]:
    """Tracing into the store, with the rollouts' clock."""
    rolltrace.init(
        project, experiment, "rolltrace", store=store, run=run, drain="off", token2text=True, quiet=True,
        tokenizer=rollouts.tokenizer,
    )  # fmt: skip
    recorder = scope.recorder
    assert recorder is not None
    recorder.random_bytes = rollouts.ids.randbytes
    if rollouts.clock is not None:
        recorder.wall_ns = recorder.tick_ns = rollouts.clock
    try:
        yield
    finally:
        rolltrace.shutdown()


def late_scores(rewards: list[tuple[rolltrace.capture.TrajectoryHandle, float]], step: int) -> None:
    """What a trainer says after a step: advantages, and what became of each trajectory."""
    values = [reward for _, reward in rewards]
    for trajectory, reward in rewards:
        rolltrace.score(trajectory, "advantage", reward - sum(values) / len(values))
        if len(set(values)) == 1:
            rolltrace.score(trajectory, "fate", "filtered", reason="all rewards of its group are the same")
        else:
            rolltrace.score(trajectory, "fate", "trained", reason=f"in the batch of step {step + 1}")


_ODDITIES = ("prefix_break", "mixed_policy", "truncated", "tool_error", "repetition", "image", "note")


def write_maths(store: Path, steps: int, samples: int, size: int) -> None:
    """The experiment with a bit of everything; its second run goes on from the last but one step of the first."""
    rollouts = Rollouts(1, Clock())
    for run, covered in (("run-a", range(steps - 1)), ("run-b", range(steps - 2, steps))):
        with recording(store, PROJECT, EXPERIMENT, run, rollouts):
            for step in covered:
                start_ns = BEGIN_NS + (step * 60 + (3600 if run == "run-b" else 0)) * SECOND
                learned = step / max(steps - 1, 1)
                for sample in range(samples):
                    _group(rollouts, step, sample * 17, size, start_ns, learned)
                if step % 2 == 0:
                    for sample in range(3):
                        for n in range(2):
                            rollouts.rollout(
                                step, sample, n, validate=True, start_ns=start_ns + 30 * SECOND, learned=learned,
                                split="test",
                            )  # fmt: skip
    with recording(store, PROJECT, EXPERIMENT, "run-b", rollouts):
        last, start_ns = steps - 1, BEGIN_NS + (steps * 60 + 3600) * SECOND
        for n in range(4):
            rollouts.rollout(last, "hostile-<b>", n, odd=frozenset({"hostile"}), start_ns=start_ns, note=HOSTILE[n + 1])
            rollouts.rollout(last, "d5f1c2aa-uuid", n, odd=frozenset({"long"}), turns=8, start_ns=start_ns)
        for n, oddity in enumerate(_ODDITIES):
            rollouts.rollout(last, "oddities", n, odd=frozenset({oddity}), turns=4, start_ns=start_ns, oddity=oddity)
        _nested(rollouts, last, start_ns)


def _group(rollouts: Rollouts, step: int, sample: int, size: int, start_ns: int, learned: float) -> None:
    rewards = []
    rng = rollouts.rng
    same = rng.random() < 0.2
    for n in range(size):
        odd = {"zero variance"} if same else set()
        odd |= {f"alike {turn}" for turn in range(rng.choice((0, 1, 1, 2, 3)))}
        if rng.random() < 0.25:
            odd.add(rng.choice(_ODDITIES))
        if rng.random() < 0.02:
            odd.add("error")
        if (step, sample, n) == (2, 17, 1):
            odd.add("nan")
        tags: dict[str, Any] = {"difficulty": rng.choice(("easy", "hard")), "domain": ("airline", "算术")[sample % 2]}
        try:
            rewards.append(
                rollouts.rollout(step, sample, n, odd=frozenset(odd), start_ns=start_ns, learned=learned, **tags)
            )
        except TimeoutError:  # recorded, and not scored
            pass
    if rewards:
        late_scores(rewards, step)


def _nested(rollouts: Rollouts, step: int, start_ns: int) -> None:
    """A rollout that asks another agent, which is a trajectory of its own."""
    rollouts.clock.now_ns = start_ns  # type: ignore[union-attr]
    with rolltrace.rollout_trace_attr("planner", step, 0, name="planner") as outer:

        @rolltrace.rollout_trace_op(name="delegate")
        def delegate(task: str) -> str:
            with rolltrace.rollout_trace_attr("planner", step, 0, name="sub-agent"):
                return rollouts.run([{"role": "user", "content": task}], 2, step, frozenset())

        delegate(QUESTIONS[5])
        outer.reward(0.5)


def write_env(store: Path) -> None:
    """Environment steps, as tinker's cookbook has them."""
    rollouts = Rollouts(2, Clock())
    with recording(store, "games", "gridworld", "run-env", rollouts):
        for step in range(3):
            episodes = []
            for n in range(4):
                rollouts.clock.now_ns = BEGIN_NS + step * 100 * SECOND  # type: ignore[union-attr]
                with rolltrace.rollout_trace_attr(n % 2, step, n, name="episode") as trajectory:
                    _episode(rollouts, trajectory, step)
                episodes.append(trajectory)
            for sample in range(2):
                _preferences(rollouts, sample, step, episodes[sample::2])
            for trajectory in episodes:  # training is two steps behind, as it is where it does not wait
                rolltrace.score(trajectory, "fate", "trained", trained_step=step + 2)


def _episode(rollouts: Rollouts, trajectory: rolltrace.capture.TrajectoryHandle, step: int) -> None:
    x, y, total = 0, 0, 0.0
    prompt: list[Message] = []
    ids: list[int] = []
    for move in range(5):
        action = rollouts.rng.choice(("left", "right", "up", "down"))
        state = {"x": x, "y": y, "inventory": ["key"] * (move > 2), "地图": [[0, 1], [1, 0]]}
        prompt = [*prompt, {"role": "user", "content": f"You are at ({x}, {y}). Where do you go?"}]
        ids = [*ids, *rollouts.rendered(prompt[-1])]
        reply = {"role": "assistant", "content": action}
        ids = [*ids, *rollouts.generate(prompt, ids, reply, step)["token_ids"]]
        prompt = [*prompt, reply]
        x, y = x + (action == "right") - (action == "left"), y + (action == "up") - (action == "down")
        reward = round(rollouts.rng.uniform(-0.2, 1.0), 3)
        total += reward
        trace = rolltrace.RolloutTrace(
            prompt=prompt, policy_response=action, env_state=state, extra={"move": move},
            reward_data={"distance": reward / 2, "bonus": reward / 2},
        )  # fmt: skip
        done = move == 4
        trajectory.transition(
            trace, reward=reward, episode_done=done, metrics={"moves": move + 1}, stop_reason="won" if done else None
        )
    trajectory.reward(total, terms={"distance": total / 2, "bonus": total / 2})


def _preferences(
    rollouts: Rollouts, sample: int, step: int, episodes: list[rolltrace.capture.TrajectoryHandle]
) -> None:
    """What is done for a group as a whole: its episodes are compared, and the last step of each has another reward."""

    @rolltrace.rollout_trace_op(name="prefer", kind="reward")
    def prefer(first: str, second: str, question: str) -> dict[str, Any]:
        rollouts.wait(0.4)
        return {"winner": first, "margin": 0.25, "why": "it reached the key with fewer moves"}

    with rolltrace.rollout_trace_group(sample, step, name="preferences", judge="pairwise") as group:
        prefer(episodes[0].id, episodes[1].id, "Which of these two walks is the better one?")
        prefer(episodes[1].id, episodes[0].id, "Which of these two walks is the better one?")
        group.note("both orders agree")
    for at, trajectory in enumerate(episodes):
        trajectory.amend_transition(reward=0.5 - at, metrics={"won": 1 - at}, logs={"judge": "first reading"})
        rollouts.wait(30)
        trajectory.amend_transition(reward=0.75 - at, logs={"judge": "second reading"})


def write_tokens_only(store: Path) -> None:
    """As verl records it: token ids and no messages, so that the conversation is read off the decoded text."""
    rollouts = Rollouts(3, Clock())
    with recording(store, "verl", "tool-agent", "run-verl", rollouts):
        for step in range(1, 4):
            for sample in range(3):
                for n in range(4):
                    rollouts.rollout(
                        step, sample, n, odd=frozenset({"tokens only"}), start_ns=BEGIN_NS + step * 90 * SECOND,
                        learned=step / 4,
                    )  # fmt: skip


def _die_in_the_middle(store: Path) -> None:
    rollouts = Rollouts(4, Clock())
    with recording(store, PROJECT, "interrupted", "run-killed", rollouts):
        for n in range(2):
            rollouts.rollout(0, 0, n, start_ns=BEGIN_NS)
        with rolltrace.rollout_trace_attr(0, 0, 2, name="agent_loop"):

            @rolltrace.rollout_trace_op(name="python", kind="tool")
            def hang(code: str) -> None:
                os.kill(os.getpid(), signal.SIGKILL)

            hang("while True: pass")


def write_interrupted(store: Path) -> None:
    """An experiment whose process was killed in a tool call."""
    child = multiprocessing.get_context("fork").Process(target=_die_in_the_middle, args=(store,))
    child.start()
    child.join()


def write_demo(store: Path, *, steps: int = 8, samples: int = 6, size: int = 8) -> Path:
    """Several experiments with a bit of everything."""
    write_tokens_only(store)
    write_env(store)
    write_interrupted(store)
    write_maths(store, steps, samples, size)
    drain(store, compacted=True)
    return store


def write_big(store: Path, count: int, *, per_step: int = 400, size: int = 8) -> Path:
    """One experiment of many trajectories; the first of them has 30 turns and 30,000 tokens."""
    rollouts = Rollouts(5, Clock())
    for step in range(max(1, count // per_step)):
        start_ns = BEGIN_NS + step * 120 * SECOND
        with recording(store, *BIG, "run-big", rollouts):
            if step == 0:
                rollouts.rollout(0, "long", 0, odd=frozenset({"long"}), turns=30, start_ns=start_ns)
            for sample in range(per_step // size):
                _group(rollouts, step, sample, size, start_ns, step * per_step / count)
        drain(store)
        sys.stderr.write(f"\r{(step + 1) * per_step:,} trajectories")
    sys.stderr.write("\n")
    drain(store, compacted=True)
    return store


def go_on_recording(store: Path) -> None:
    """Rollouts in real time, four at a time, until Ctrl-C; one of them hangs."""
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=_record_live, args=(store, at)) for at in range(4)]
    for worker in workers:
        worker.start()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    try:
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        pass
    finally:
        for worker in workers:
            worker.terminate()


def _record_live(store: Path, at: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    rollouts = Rollouts(100 + at, None)
    with recording(store, "live", "right-now", "run-live", rollouts):
        for step in range(1_000_000):
            rollouts.rollout(step, step % 5, at, learned=min(1.0, step / 50))
            if at == 3 and step == 2:
                with rolltrace.rollout_trace_attr(99, step, at, name="hangs"):
                    rollouts.tool("python", {"code": "while True: pass"}, "")
                    rollouts.generate(None, [1, 2], {"role": "assistant", "content": "…"}, step)
                    _hang(rollouts)


@rolltrace.rollout_trace_op(name="python", kind="tool")
def _hang(rollouts: Rollouts) -> None:
    rollouts.wait(1e6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--size", default="demo", help="demo, small, or a number of trajectories")
    parser.add_argument("--live", action="store_true", help="go on recording until Ctrl-C; an existing store is kept")
    options = parser.parse_args()
    os.environ["ROLLTRACE_STRICT"] = "1"
    if not options.folder.exists():
        if options.size == "demo":
            write_demo(options.folder)
        elif options.size == "small":
            write_demo(options.folder, steps=4, samples=3, size=4)
        else:
            write_big(options.folder, int(options.size))
    if options.live:
        go_on_recording(options.folder)


if __name__ == "__main__":
    main()
