"""Token columns and scalars, found under the names that frameworks use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rolltrace.drain.tokens import take_columns
from rolltrace.record import Snapshotter, decode_value


def found(inputs: Any, outputs: Any) -> Any:
    """What is found in values as they come out of a journal."""
    take = Snapshotter().take
    return take_columns(decode_value(take(inputs)), decode_value(take(outputs))).get("policy_version")


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        ({}, {"policy_version": 7}),
        ({"policy_version": 7}, "text"),
        ({}, {"weight_version": "7"}),
        ({}, {"outputs": [{"model_version": 7}]}),
        ({}, {"extra_fields": {"policy_version": 7}}),
        ({}, {"metrics": {"param_version": 7.0}}),
        ({}, {"choices": [{"meta_info": {"weight_version": "7"}}]}),
        ({"extra_fields": {"policy_version": 7}}, {"extra_fields": {"other": 1}}),
        ({"policy_version": 6}, {"policy_version": np.int64(7)}),
        ({}, {"policy_version": np.array(7)}),
    ],
)
def test_the_policy_version_is_found(inputs: Any, outputs: Any) -> None:
    assert found(inputs, outputs) == 7


@pytest.mark.parametrize("value", [True, "default", 1.5, None, [7], np.array([7, 8]), 1 << 80, float("nan")])
def test_what_is_no_whole_number_is_no_policy_version(value: Any) -> None:
    assert found({}, {"policy_version": value}) is None
