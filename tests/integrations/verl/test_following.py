"""The trajectory goes along with calls of Ray actors and tasks; those that know nothing of it are called as ever."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import verl  # noqa: F401  (it loads the plug-in)
from ray import cloudpickle

import rolltrace

from .compared import tree
from .rig import Rig

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # not on the workers' path, as a user's script is not


@pytest.fixture(autouse=True)
def _on(rig: Rig, experiment: str) -> Iterator[None]:
    rolltrace.init("maths", experiment, "rolltrace", drain="off")
    yield
    rolltrace.shutdown()


class Server:
    async def calls(self, word: str) -> str:
        @rolltrace.rollout_trace_op(name="of_actor")
        async def of_actor(word: str) -> str:
            return await ray.remote(of_task).remote(word)

        return await of_actor(word)


class Elsewhere:
    """Where there is no rolltrace."""

    def is_there(self) -> bool:
        return is_there()


def is_there() -> bool:
    try:
        import rolltrace  # noqa: F401
    except ImportError:
        return False
    return True


def of_task(word: str, *more: str, loud: bool = False, **other: str) -> str:
    @rolltrace.rollout_trace_op(name="of_task")
    def run() -> str:
        return "".join([word, *more, *other, "!" if loud else ""])

    return run()


@rolltrace.rollout_trace_op(name="outer")
def outer(handle: Any, *args: Any, **kwargs: Any) -> Any:
    return ray.get(handle.remote(*args, **kwargs))


def test_a_task_belongs_to_the_op_that_calls_it(recorded: Any) -> None:
    task = ray.remote(of_task)
    with rolltrace.rollout_trace_attr(step=1, sample_index=1):
        assert outer(task, "a", "b", loud=True, c="") == "abc!"
    (each,) = recorded()
    assert [tree(op) for op in each.ops] == [{"outer": ["of_task"]}]


def test_a_task_called_outside_a_trajectory_and_then_inside(recorded: Any) -> None:
    task = ray.remote(of_task)
    assert ray.get(task.remote("a")) == "a"
    with rolltrace.rollout_trace_attr(step=1, sample_index=1):
        assert outer(task.options(num_cpus=0), "b") == "b"
    found = [each for each in recorded() if each.step == 1]
    assert [tree(op) for op in found[0].ops] == [{"outer": ["of_task"]}]


def test_from_an_actor_on_into_a_task(rig: Rig, recorded: Any) -> None:
    server = ray.remote(Server).options(num_cpus=0).remote()
    with rolltrace.rollout_trace_attr(step=1, sample_index=1):
        assert outer(server.calls, "a") == "a"
    (each,) = recorded()
    assert [tree(op) for op in each.ops] == [{"outer": [{"of_actor": ["of_task"]}]}]


def test_a_task_that_raises_does_so_as_ever(recorded: Any) -> None:
    task = ray.remote(of_task)
    with rolltrace.rollout_trace_attr(step=1, sample_index=1), pytest.raises(TypeError, match="missing a required"):
        outer(task)


def test_a_task_that_yields_is_left_alone(recorded: Any) -> None:
    def count(most: int) -> Iterator[int]:
        for number in range(most):  # noqa: UP028  (Ray sends into what it gets)
            yield number

    with rolltrace.rollout_trace_attr(step=1, sample_index=1):
        assert [ray.get(each) for each in ray.remote(count).remote(3)] == [0, 1, 2]


def test_actors_and_tasks_without_rolltrace_are_called_as_ever(tmp_path: Path, recorded: Any) -> None:
    (tmp_path / "rolltrace").mkdir()
    (tmp_path / "rolltrace/__init__.py").write_text("raise ImportError('not here')\n")
    without = {"runtime_env": {"env_vars": {"PYTHONPATH": str(tmp_path)}}, "num_cpus": 0}
    server = ray.remote(Elsewhere).options(**without).remote()
    with rolltrace.rollout_trace_attr(step=1, sample_index=1):
        assert outer(server.is_there) is False
        assert outer(ray.remote(is_there).options(**without)) is False
    (each,) = recorded()
    assert [op.name for op in each.walk()] == ["outer", "outer"]
