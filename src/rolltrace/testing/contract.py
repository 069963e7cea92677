"""What every backend promises, as tests: subclass it, and pytest runs them.

    from rolltrace.testing import BackendContract, Seen

    class TestMyBackend(BackendContract):
        def make_backend(self):
            return MyBackend()

        def read_back(self, trajectory_id):
            return Seen(...)  # asked from the vendor, through the vendor's own API

The trajectories are real ones, traced and read back from a store. pytest itself is not imported here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rolltrace.capture import TrajectoryHandle, rollout_trace_attr, rollout_trace_op
from rolltrace.testing.recording import rollouts

if TYPE_CHECKING:
    from rolltrace.backends import Backend
    from rolltrace.query import Op, Trajectory

_TEXT = '回答：«größer» 🎉 \u202e <script>alert("x")</script> \x00 \ud800'.encode("utf-8", "replace").decode()
_HUGE = 3 << 20


@dataclass(frozen=True)
class SeenOp:
    """An op as the vendor shows it."""

    id: str
    parent: str | None
    """The id of the op it was called in; None for a top op (not the vendor's root for the trajectory)."""
    name: str
    failed: bool
    """It ended in an error, was cancelled or interrupted."""
    inputs: Any = None
    outputs: Any = None
    error: str | None = None
    """What the vendor shows of the exception: at least its message."""
    start_ns: int | None = None
    end_ns: int | None = None


@dataclass(frozen=True)
class Seen:
    """A trajectory as the vendor shows it. What a vendor cannot show is left out."""

    ops: list[SeenOp]
    scores: dict[str, float] = field(default_factory=dict)
    """The newest value of each: reward, advantage, ..."""
    coordinates: dict[str, str] = field(default_factory=dict)
    """As text: project, experiment, step, sample_index, rollout_n, validate."""
    failed: bool = False


@rollout_trace_op(kind="llm")
def generate(messages: list[dict[str, str]], prompt_ids: list[int]) -> dict[str, Any]:
    return {"text": "a call", "token_ids": [7, 8, 9], "logprobs": [-0.25, -0.5, -0.125], "finish_reason": "stop"}


@rollout_trace_op(kind="aux_llm")
def grade(messages: list[dict[str, str]]) -> dict[str, Any]:
    return {"text": "B is better", "usage": {"prompt_tokens": 5, "completion_tokens": 3}}


@rollout_trace_op(kind="tool")
def search(query: str) -> dict[str, Any]:
    if query == "fail":
        raise ValueError("no such page")
    return {"found": [query], "score": 0.5, "more": None}


@rollout_trace_op(name="agent_loop")
def agent(query: str) -> str:
    generate([{"role": "user", "content": query}], [1, 2, 3])
    try:
        search(query)
    except ValueError:
        return "gave up"
    return f"found {query}"


class BackendContract:
    """Tests that hold for every backend."""

    time_resolution_ns: ClassVar[int] = 1_000
    """How exactly the vendor keeps times."""

    def make_backend(self) -> Backend:
        """A backend that is set up to reach the vendor under test."""
        raise NotImplementedError

    def read_back(self, trajectory_id: str) -> Seen | None:
        """What the vendor has of a trajectory, asked through its own API; None if nothing."""
        raise NotImplementedError

    def same_value(self, recorded: Any, seen: Any) -> bool:
        """Whether the vendor shows what was recorded. Override it where a vendor changes or cuts values."""
        return as_json(recorded) == as_json(seen)

    def test_every_op_arrives_with_its_inputs_outputs_and_times(self, tmp_path: Path) -> None:
        with self._arriving(tmp_path, sample_index=7, step=3, rollout_n=1):
            agent("pages")
            search("second")

    def test_an_error_arrives(self, tmp_path: Path) -> None:
        with self._arriving(tmp_path, step=1) as handle:
            agent("fail")
        failed = next(op for op in self._seen(handle.id).ops if op.name == "search")
        assert failed.failed, "the op that raised does not show as failed"
        assert "no such page" in (failed.error or ""), f"the message is lost: {failed.error!r}"

    def test_a_trajectory_that_failed_shows_so(self, tmp_path: Path) -> None:
        with rollouts(tmp_path) as lab:
            try:
                with rollout_trace_attr(step=1) as handle:
                    raise RuntimeError("broken rollout")
            except RuntimeError:
                pass
            seen = self._check(self._send(lab.read(handle.id)))
        assert seen.failed, "the trajectory does not show as failed"

    def test_text_of_every_language_arrives(self, tmp_path: Path) -> None:
        with self._arriving(tmp_path, step=1, sample_index="样本-1"):
            search(_TEXT)

    def test_coordinates_arrive(self, tmp_path: Path) -> None:
        with self._arriving(tmp_path, sample_index="a-uuid", step=12, rollout_n=3, validate=True) as handle:
            search("x")
        seen = self._seen(handle.id)
        wanted = {"step": "12", "sample_index": "a-uuid", "rollout_n": "3", "validate": "true", "experiment": "run"}
        coordinates = {name: str(seen.coordinates.get(name)) for name in wanted}
        coordinates["validate"] = coordinates["validate"].lower()
        assert coordinates == wanted

    def test_scores_arrive(self, tmp_path: Path) -> None:
        with self._arriving(tmp_path, step=1) as handle:
            search("x")
            handle.reward(0.25)
            handle.reward(0.75, terms={"format": 1.0})
        scores = self._seen(handle.id).scores
        assert scores.get("reward") == 0.75, f"the newest reward counts, not {scores}"

    def test_rewards_that_are_no_numbers_stop_nothing(self, tmp_path: Path) -> None:
        with rollouts(tmp_path) as lab:
            ids = []
            for value in (math.nan, math.inf, -math.inf, None):
                with rollout_trace_attr(step=1) as handle:
                    search("x")
                    handle.reward(value, terms={"format": math.nan})
                ids.append(handle.id)
            trajectories = [lab.read(each) for each in ids]
        self._send(*trajectories)
        for trajectory in trajectories:
            self._check(trajectory)

    def test_a_huge_payload_does_not_stop_the_others(self, tmp_path: Path) -> None:
        with rollouts(tmp_path) as lab:
            ids = []
            for size in (10, _HUGE, 20):
                with rollout_trace_attr(step=1) as handle:
                    search("大" * size)
                ids.append(handle.id)
            small, huge, other = (lab.read(each) for each in ids)
        self._send(small, huge, other)
        self._check(small)
        self._check(other)
        seen = self._seen(huge.trajectory_id)
        assert [op.name for op in seen.ops] == ["search"], "the op with the huge payload did not arrive"

    def test_calls_of_other_models_and_amended_steps_arrive(self, tmp_path: Path) -> None:
        with self._arriving(tmp_path, sample_index=7, step=3, rollout_n=1) as handle:
            agent("pages")
            grade([{"role": "user", "content": "A or B?"}])
            handle.transition({"prompt": "p"}, reward=0.5, episode_done=False)
            handle.amend_transition(reward=1.0, episode_done=True)

    def test_an_empty_trajectory_arrives(self, tmp_path: Path) -> None:
        with self._arriving(tmp_path, step=1):
            pass

    def test_an_op_outside_any_trajectory_arrives(self, tmp_path: Path) -> None:
        with rollouts(tmp_path) as lab:
            search("alone")
            from rolltrace.query import open_store

            (row,) = open_store(tmp_path).trajectories().rows()
            self._check(self._send(lab.read(row["trajectory_id"])))

    def test_what_was_interrupted_by_a_kill_arrives(self, tmp_path: Path) -> None:
        with rollouts(tmp_path) as lab:

            @rollout_trace_op(name="killed")
            def killed(query: str) -> None:
                lab.kill()

            with rollout_trace_attr(step=1) as handle:
                search("before")
                killed("now")
            trajectory = lab.read(handle.id)
        assert trajectory.status == "interrupted"
        seen = self._check(self._send(trajectory))
        assert next(op for op in seen.ops if op.name == "killed").failed, "an op that never ended shows as fine"

    def test_a_repeat_doubles_nothing(self, tmp_path: Path) -> None:
        with rollouts(tmp_path) as lab:
            with rollout_trace_attr(step=1) as handle:
                agent("pages")
                handle.reward(0.5)
            trajectory = lab.read(handle.id)
        self._send(trajectory)
        self._send(trajectory)
        self._send(trajectory, trajectory)
        seen = self._check(trajectory)
        assert seen.scores.get("reward") == 0.5

    def test_late_scores_arrive_by_an_update(self, tmp_path: Path) -> None:
        with rollouts(tmp_path) as lab:
            with rollout_trace_attr(step=1) as handle:
                agent("pages")
                handle.reward(0.25)
            self._send(lab.read(handle.id))
            handle.reward(1.0, terms={"late": 1.0})
            late = lab.read(handle.id)
        for _ in range(2):  # an update may be repeated too
            backend = self.make_backend()
            backend.update([late])
            backend.close()
        seen = self._check(late)
        assert seen.scores.get("reward") == 1.0, f"the late reward counts, not {seen.scores}"

    def test_ops_that_come_late_are_added(self, tmp_path: Path) -> None:
        with rollouts(tmp_path) as lab:
            with rollout_trace_attr(step=1) as handle:
                agent("pages")
                early = lab.read(handle.id)
                search("late")
            self._send(early)
            self._check(self._send(lab.read(handle.id)))

    def test_nothing_to_send_is_fine(self) -> None:
        backend = self.make_backend()
        assert list(backend.send([])) == []
        backend.update([])
        backend.close()

    @contextmanager
    def _arriving(self, folder: Path, **coordinates: Any) -> Iterator[TrajectoryHandle]:
        """Trace one trajectory, send it, and compare what the vendor has of it."""
        with rollouts(folder) as lab:
            with rollout_trace_attr(**coordinates) as handle:
                yield handle
            self._check(self._send(lab.read(handle.id)))

    def _send(self, *trajectories: Trajectory) -> Trajectory:
        backend = self.make_backend()
        refused = backend.send(trajectories)
        backend.close()
        assert list(refused) == [], f"refused: {refused}"
        return trajectories[0]

    def _seen(self, trajectory_id: str) -> Seen:
        seen = self.read_back(trajectory_id)
        assert seen is not None, "the vendor has nothing of it"
        return seen

    def _check(self, trajectory: Trajectory) -> Seen:
        """Compare what the vendor has with what was recorded, op by op."""
        seen = self._seen(trajectory.trajectory_id)
        problems = differences(trajectory, seen, self)
        assert not problems, "\n".join(problems)
        return seen


def differences(trajectory: Trajectory, seen: Seen, contract: BackendContract) -> list[str]:
    """How the vendor's picture of a trajectory differs from what was recorded; nothing if it does not."""
    recorded, shown = _by_path(list(_as_seen(trajectory.ops))), _by_path(seen.ops)
    problems = [f"missing: {path}" for path in recorded if path not in shown]
    problems += [f"not recorded, or twice: {path}" for path in shown if path not in recorded]
    for path, op in recorded.items():
        if path in shown:
            problems += (f"{path}: {problem}" for problem in _op_differences(op, shown[path], contract))
    return problems


def _as_seen(ops: list[Op], parent: str | None = None) -> Iterator[SeenOp]:
    """The recorded ops as a vendor shall show them."""
    for op in ops:
        own, failed = str(op.op_id), op.status != "ok"
        yield SeenOp(own, parent, op.name, failed, op.inputs, op.outputs, op.error, op.start_ns, op.end_ns)
        yield from _as_seen(op.children, own)


def _op_differences(op: SeenOp, seen: SeenOp, contract: BackendContract) -> Iterator[str]:
    for what in ("inputs", "outputs"):
        ours, theirs = getattr(op, what), getattr(seen, what)
        if ours is not None and not contract.same_value(ours, theirs):
            yield f"{what}: {_short(ours)} became {_short(theirs)}"
    if op.failed != seen.failed:
        yield f"an op that {'failed' if op.failed else 'ended well'} shows as {'failed' if seen.failed else 'fine'}"
    for what in ("start_ns", "end_ns"):
        when, shown = getattr(op, what), getattr(seen, what)
        if when is not None and shown is not None and abs(when - shown) > contract.time_resolution_ns:
            yield f"{what}: {when} became {shown}"


def _by_path(ops: list[SeenOp]) -> dict[str, SeenOp]:
    """Each op under its name and those of the ops around it, numbered where names repeat."""
    by_path: dict[str, SeenOp] = {}
    ids = {op.id for op in ops}

    def add(parent: str | None, above: str) -> None:
        inside = [op for op in ops if op.parent == parent or (parent is None and op.parent not in ids)]
        for op in sorted(inside, key=lambda op: op.start_ns or 0):
            path = f"{above}/{op.name}"
            again = sum(each == path or each.startswith(f"{path}#") for each in by_path)
            path += f"#{again + 1}" if again else ""
            by_path[path] = op
            add(op.id, path)

    add(None, "")
    return by_path


def as_json(value: Any) -> str:
    """A value as text that can be compared: what JSON makes of it, keys in order."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _short(value: Any) -> str:
    text = as_json(value)
    return text if len(text) < 200 else f"{text[:200]}... ({len(text)} characters)"
