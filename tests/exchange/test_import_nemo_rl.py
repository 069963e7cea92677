"""Data that NeMo-RL logged for each step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rolltrace.exchange.importer import ImportReport

from .conftest import Importer, write
from .mutations import SAMPLES, outcomes

FOLDER = SAMPLES / "nemo_rl"
FILE = FOLDER / "train_data_step3.jsonl"
LINE: dict[str, Any] = json.loads(FILE.read_text().splitlines()[0])


def test_the_data_of_a_step_keeps_tokens_masks_and_rewards(into: Importer) -> None:
    assert into("nemo-rl", FOLDER) == ImportReport(5, 0, 0)
    rows = into.store.trajectories(validate=False, order="sample_index,rollout_n").rows()
    assert [(row["step"], row["sample_index"], row["rollout_n"], row["reward"]) for row in rows] == [
        (3, 0, 0, 0.0), (3, 0, 1, 1.0), (3, 2, 0, 0.0), (3, 2, 1, 1.0),
    ]  # fmt: skip
    trajectory = into.store.trajectory(rows[0]["trajectory_id"])
    (call,) = trajectory.ops
    assert (call.prompt_tokens, call.response_tokens) == (3, 2)
    assert (call.outputs["logprobs"], call.outputs["response_mask"]) == ([-0.25, -0.5], [1, 1])
    assert {each["name"]: each["value"] for each in trajectory.scores} == {"reward": 0.0, "advantage": 0.5}
    (checked,) = into.store.trajectories(validate=True).rows()
    assert (checked["step"], checked["reward"]) == (3, 1.0)
    assert into("nemo-rl", FILE) == ImportReport(0, 4, 0)


@pytest.mark.parametrize("change", [{"content": [5]}, {"content": None}, {"rewards": ["much"]}, {"idx": "x"}])
def test_a_damaged_line_is_refused(change: dict[str, Any], tmp_path: Path, into: Importer) -> None:
    file = write(tmp_path / "train_data_step9.jsonl", [{**LINE, **change}, LINE])
    assert into("nemo-rl", file) == ImportReport(1, 0, 1)


def test_whatever_is_wrong_in_a_line_is_refused_by_name_or_read(tmp_path: Path) -> None:
    good, refused = outcomes("nemo-rl", FILE, tmp_path)
    assert good > 100
    assert refused > 10
