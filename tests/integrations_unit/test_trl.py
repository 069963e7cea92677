"""What the integration of TRL knows without TRL."""

from __future__ import annotations

import pytest

from rolltrace.cli import main
from rolltrace.integrations.trl.coordinates import BatchPosition, coordinates_of, sample_of
from rolltrace.integrations.trl.framework import RELEASES
from rolltrace.integrations.trl.generation import unique_names
from rolltrace.testing import Recording


def prompts(*samples: int) -> list[dict[str, object]]:
    return [{"prompt": [{"role": "user", "content": f"{sample}?"}], "index": sample} for sample in samples]


def test_a_group_that_is_split_over_ranks_counts_on(traced: Recording) -> None:
    ranks = [coordinates_of(prompts(5, 5), BatchPosition(1, False, rank, 4)) for rank in (0, 1)]
    assert ranks[0] == [(5, 0), (5, 1)]
    # In a process of its own, as each rank is, nobody has drawn the sample before.
    assert [number % 4 for _, number in ranks[1]] == [2, 3]


def test_a_sample_that_is_drawn_again_in_a_step_gets_further_numbers(traced: Recording) -> None:
    position = BatchPosition(1, False, 0, 2)
    assert coordinates_of(prompts(5, 5, 6, 6), position) == [(5, 0), (5, 1), (6, 0), (6, 1)]
    assert coordinates_of(prompts(5, 5), position) == [(5, 2), (5, 3)]
    assert coordinates_of(prompts(5, 5), position._replace(step=2)) == [(5, 0), (5, 1)]


def test_a_row_without_an_id_is_known_by_what_it_says_and_not_by_objects_in_it() -> None:
    plain = {"prompt": "2+2?", "answer": 4}
    assert sample_of(plain) == sample_of(dict(reversed(plain.items())))
    assert sample_of({**plain, "image": object()}) == sample_of({**plain, "image": object()})
    assert sample_of(plain) != sample_of({**plain, "answer": 5})
    assert sample_of({**plain, "id": "q-7"}) == "q-7"


def test_two_reward_functions_of_one_name_are_told_apart() -> None:
    assert unique_names(["right", "short", "right"]) == ["right_0", "short", "right_2"]


def test_releases_between_those_tested_fit() -> None:
    assert [RELEASES.is_tested(each) for each in ("1.4.0", "1.5.0", "1.9.2", "1.16.0", "1.17.0")] == [
        False, True, True, True, False,
    ]  # fmt: skip


def test_the_doctor_says_how_to_get_trl(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--trl"]) == 1
    shown = capsys.readouterr().out
    assert "TRL is not installed for this Python" in shown
    assert "pip install 'trl==" in shown
