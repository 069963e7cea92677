"""Real tensors on the CPU: values up to a limit, then shape, dtype and statistics."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from rolltrace import rollout_trace_attr
from rolltrace.record import Array, ArraySummary, Snapshotter, decode_value, to_json
from rolltrace.testing import recording


def seen(value: Any, **limits: Any) -> Any:
    return decode_value(Snapshotter(**limits).take(value))


NUMERIC = [
    getattr(torch, name)
    for name in (
        *("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "bool"),
        *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    )
]


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_a_tensor_of_any_numeric_dtype_keeps_its_values_and_shape(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(dtype)
    found = seen(tensor)
    assert (type(found), found.shape, found.tolist()) == (Array, (2, 3), tensor.tolist())


@pytest.mark.parametrize("dtype", NUMERIC, ids=str)
def test_a_zero_dimensional_tensor_becomes_its_number(dtype: torch.dtype) -> None:
    tensor = torch.tensor(1).to(dtype)
    found = seen(tensor)
    assert (type(found), found) == (type(tensor.item()), tensor.item())


def test_a_tensor_that_requires_grad_keeps_its_values() -> None:
    tensor = torch.tensor([0.5, 1.5], requires_grad=True) * 2
    assert seen(tensor).tolist() == [1.0, 3.0]


def test_a_parameter_is_a_tensor() -> None:
    assert seen(torch.nn.Parameter(torch.ones(2))).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_a_non_contiguous_tensor_keeps_its_order(dtype: torch.dtype) -> None:
    tensor = torch.arange(12).reshape(3, 4).to(dtype).t()[::2]
    assert seen(tensor).tolist() == tensor.tolist()


@pytest.mark.parametrize("shape", [(0,), (3, 0), (0, 3)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_an_empty_tensor_keeps_its_shape(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    tensor = torch.zeros(shape, dtype=dtype)
    assert (seen(tensor).shape, seen(tensor).tolist()) == (shape, tensor.tolist())


def test_conjugate_and_negative_views_are_resolved() -> None:
    tensor = torch.tensor([1 + 2j]).conj()
    assert (seen(tensor).tolist(), seen(tensor.imag).tolist()) == ([1 - 2j], [-2.0])


def test_token_ids_and_logprobs_in_one_dimension_are_exact_whatever_the_limit_on_arrays() -> None:
    ids, logprobs = torch.arange(100_000), torch.rand(100_000)
    found = seen({"ids": ids, "logprobs": logprobs}, max_array_bytes=10)
    assert (found["ids"].tolist(), found["logprobs"].tolist()) == (ids.tolist(), logprobs.tolist())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64], ids=str)
@pytest.mark.parametrize("turned", [False, True], ids=["contiguous", "transposed"])
def test_a_large_tensor_becomes_shape_dtype_and_statistics(dtype: torch.dtype, turned: bool) -> None:
    tensor = (torch.arange(1024 * 1024).reshape(1024, 1024) % 100).to(dtype)
    found = seen(tensor.t() if turned else tensor)
    assert (type(found), found.dtype, found.shape, found.device) == (
        ArraySummary,
        str(dtype),
        (1024, 1024),
        "cpu",
    )
    numbers = found.statistics
    assert numbers["sampled"] == 65_536
    assert 0 <= numbers["min"] <= numbers["mean"] <= numbers["max"] <= 99
    assert numbers["std"] > 0


def test_statistics_see_the_infinite_logits_of_masked_tokens() -> None:
    logits = torch.zeros(600, 600)
    logits[:, ::2] = -torch.inf
    assert seen(logits).statistics["min"] == -torch.inf


def test_a_summary_counts_as_a_cut() -> None:
    snapshotter = Snapshotter(max_array_bytes=10)
    snapshotter.take(torch.zeros(10, 10))
    assert snapshotter.cuts == 1


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(2, 3, device="meta"),
        torch.eye(3).to_sparse(),
        torch.zeros(2, 2).to(torch.float8_e4m3fn),
    ],
    ids=["meta", "sparse", "float8"],
)
def test_a_tensor_without_plain_values_becomes_a_summary(tensor: torch.Tensor) -> None:
    found = seen(tensor)
    expected = (ArraySummary, str(tensor.dtype), tuple(tensor.shape), str(tensor.device), None)
    assert (type(found), found.dtype, found.shape, found.device, found.statistics) == expected


def test_later_mutation_does_not_reach_the_snapshot() -> None:
    tensor = torch.ones(3)
    raw = Snapshotter().take([tensor])
    tensor.zero_()
    assert decode_value(raw)[0].tolist() == [1.0, 1.0, 1.0]


def test_tensors_in_a_batch_have_strict_json() -> None:
    batch = {
        "ids": torch.arange(3),
        "logprobs": torch.tensor([float("nan"), -1.0]),
        "size": torch.zeros(2, 3).shape,
    }
    json.dumps(to_json(seen(batch)), allow_nan=False)


@pytest.mark.parametrize(
    "reward",
    [torch.tensor(0.5), torch.tensor([0.5]), torch.tensor(0.5, requires_grad=True), torch.tensor(0.5).bfloat16()],
)
def test_a_reward_that_is_a_tensor_of_one_is_a_number(reward: torch.Tensor) -> None:
    with recording() as traced, rollout_trace_attr() as trajectory:
        trajectory.transition({}, reward=reward, episode_done=torch.tensor(True))
    body = traced.events[0].body
    assert (body["reward"], type(body["reward"]), body["episode_done"]) == (0.5, float, True)


def test_a_reward_on_a_device_is_not_waited_for() -> None:
    with recording() as traced, rollout_trace_attr() as trajectory:
        trajectory.transition({}, reward=torch.tensor(0.5, device="meta"))
    assert traced.events[0].body["reward"].device == "meta"
