"""The samples of a step are chosen by a hash: whatever the order, in every worker, in every run; whole groups."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rolltrace
from rolltrace.capture import sampling
from rolltrace.errors import ConfigError
from rolltrace.query import open_store
from rolltrace.testing import recording
from tests.nightly import nightly

from .sampled import GROUP, SAMPLES, STATES, bring_into, descending, kept, lost, rollout, samples, smallest, start

WORKER = """
import json, sys, rolltrace
store, order = sys.argv[1], json.loads(sys.argv[2])
rolltrace.init("p", "e", "rolltrace", store=store, drain="off", max_samples_per_step_per_worker=3)
for sample, n in order:
    with rolltrace.rollout_trace_attr(sample, step=1, rollout_n=n) as trajectory:
        trajectory.reward(1.0)
"""


@settings(max_examples=nightly(100, 3), deadline=None)
@given(
    order=st.permutations([(sample, n) for sample in SAMPLES for n in range(GROUP)]),
    limit=st.integers(1, 7),
    state=st.sampled_from(STATES),
)
def test_the_order_of_arrival_does_not_matter(order: list[tuple[Any, int]], limit: int, state: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        start(store, limit)
        for sample, n in order:
            rollout(sample, n)
        bring_into(state, store)
        rolltrace.shutdown()
        assert kept(store) == {(1, sample, n, False) for sample in smallest(limit) for n in range(GROUP)}
        assert lost(store) == len(order) - len(kept(store))


@settings(max_examples=nightly(500, 20), deadline=None)
@given(
    order=st.permutations([(sample, n) for sample in range(12) for n in range(2)]),
    limit=st.integers(0, 13),
    seed=st.integers(0, 3),
)
def test_the_choice_is_that_of_the_smallest_hashes(order: list[tuple[int, int]], limit: int, seed: int) -> None:
    with recording(max_samples_per_step_per_worker=limit, sample_seed=seed) as traced:
        for sample, n in order:
            with rolltrace.rollout_trace_attr(sample, step=1, rollout_n=n):
                pass
        chosen = rolltrace.capture.choose_samples(range(12))
    dropped = {each for said in traced.events if said.event == "drop" for each in said.body["trajectories"]}
    left = [each.coordinates for each in traced.trajectories if each.id not in dropped]
    assert {each.sample_index for each in left} == chosen == set(smallest(limit, range(12), seed))
    assert Counter(each.sample_index for each in left) == dict.fromkeys(chosen, 2)
    refused = traced.sink.losses.get("sample_limit", {}).get("1", 0)
    assert refused + len(dropped) + len(left) == len(order)


def test_two_workers_agree_whatever_comes_first(tmp_path: Path) -> None:
    order = [(sample, n) for n in range(GROUP) for sample in SAMPLES]
    for each in (order, order[::-1]):
        subprocess.run([sys.executable, "-c", WORKER, str(tmp_path), json.dumps(each)], check=True)
    found = Counter(
        (row["worker"], row["sample_index"]) for row in open_store(tmp_path).trajectories() if row["reward"] == 1.0
    )
    assert len({worker for worker, _ in found}) == 2
    assert set(found.values()) == {GROUP}
    for chosen in ({s for w, s in found if w == worker} for worker, _ in found):
        assert chosen == set(smallest(3))


def test_the_choice_is_the_same_in_every_version() -> None:
    assert rolltrace.capture.choose_samples(range(20), limit=4) == {0, 4, 5, 8}
    assert rolltrace.capture.choose_samples([str(each) for each in range(20)], limit=4) == {"0", "4", "5", "8"}


def test_the_same_samples_are_followed_over_the_steps(tmp_path: Path) -> None:
    start(tmp_path, 2)
    for step in range(4):
        for sample in SAMPLES[step % 3 :] + SAMPLES[: step % 3]:
            rollout(sample, step=step)
    assert kept(tmp_path) == {(step, sample, 0, False) for step in range(4) for sample in smallest(2)}


def test_another_seed_chooses_others() -> None:
    chosen = set()
    for seed in range(8):
        with recording(max_samples_per_step_per_worker=3, sample_seed=seed):
            chosen.add(frozenset(rolltrace.capture.choose_samples(range(100))))
    assert len(chosen) == 8


def test_a_limit_of_zero_keeps_none_and_counts_all(tmp_path: Path) -> None:
    start(tmp_path, 0)
    for sample in (*SAMPLES, None):
        rollout(sample)
    assert kept(tmp_path) == set()
    rolltrace.shutdown()  # a journal without a single record tells what it lost when it ends
    assert lost(tmp_path) == len(SAMPLES) + 1


def test_a_negative_limit_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="max_samples_per_step_per_worker must be a whole number, 0 or more, not -1"):
        start(tmp_path, -1)


def test_validation_has_a_limit_of_its_own(tmp_path: Path) -> None:
    start(tmp_path, 2)
    for validate in (False, True, False):
        for sample in descending(SAMPLES):
            rollout(sample, validate=validate)
    assert kept(tmp_path) == {(1, sample, 0, validate) for sample in smallest(2) for validate in (False, True)}
    assert lost(tmp_path) == 3 * len(SAMPLES) - 3 * 2


def test_a_number_and_its_text_are_the_same_sample(tmp_path: Path) -> None:
    start(tmp_path, 1)
    first, other = smallest(2, range(10))
    rollout(other)
    rollout(str(first), 0)
    rollout(first, 1)
    assert {(sample, n) for _, sample, n, _ in kept(tmp_path)} == {(str(first), 0), (first, 1)}


def test_trajectories_without_a_sample_are_one_sample_together(tmp_path: Path) -> None:
    start(tmp_path, 1)
    for n in range(4):
        rollout(None, n)
    assert kept(tmp_path) == {(1, None, n, False) for n in range(4)}
    assert lost(tmp_path) == 0


def test_the_limit_holds_when_threads_compete(tmp_path: Path) -> None:
    start(tmp_path, 3)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(rollout, [sample for sample in range(40) for _ in range(2)], [0, 1] * 40))
    assert kept(tmp_path) == {(1, sample, n, False) for sample in smallest(3, range(40)) for n in range(2)}
    assert lost(tmp_path) == 80 - 6


def test_memory_stays_bounded_over_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_STEPS_OPEN", 3)
    monkeypatch.setattr(sampling, "_STEPS_CLOSED", 5)
    with recording(max_samples_per_step_per_worker=2) as traced:
        for step in range(50):
            for sample in range(6):
                with rolltrace.rollout_trace_attr(sample, step=step):
                    pass
        chosen = traced.recorder._sampling
    assert chosen is not None
    assert (len(chosen._open), len(chosen._closed)) == (3, 5)


def test_a_step_that_comes_back_after_many_others_goes_on_with_its_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_STEPS_OPEN", 3)
    first, second, third = smallest(3)
    with recording(max_samples_per_step_per_worker=1) as traced:
        for step, sample in [
            (0, second),
            *((step, first) for step in range(1, 9)),
            (0, second),
            (0, first),
            (0, third),
        ]:
            with rolltrace.rollout_trace_attr(sample, step=step):
                pass
    found = [each.coordinates.sample_index for each in traced.trajectories if each.coordinates.step == 0]
    assert found == [second, second]
    assert traced.sink.losses == {"sample_limit": {"0": 2}}


def test_choosing_needs_no_tracing() -> None:
    assert rolltrace.capture.choose_samples([3, "a", 3]) == {3, "a"}
    assert rolltrace.capture.choose_samples(range(5), limit=0) == set()
    assert len(rolltrace.capture.choose_samples(range(5), limit=2)) == 2


@pytest.mark.parametrize("limit", [-1, 1.5, True, "2"])
def test_a_limit_that_makes_no_sense_is_an_error(limit: Any) -> None:
    with pytest.raises(ConfigError, match="limit must be a whole number, 0 or more"):
        rolltrace.capture.choose_samples(range(5), limit=limit)


def test_numpy_scalars_are_chosen_as_the_numbers_they_are() -> None:
    numpy = pytest.importorskip("numpy")
    chosen = rolltrace.capture.choose_samples(numpy.arange(20), limit=4)
    assert chosen == rolltrace.capture.choose_samples(range(20), limit=4)
    assert numpy.int64(4) in chosen


def test_with_the_batch_known_nothing_is_displaced(tmp_path: Path) -> None:
    start(tmp_path, 2)
    chosen = rolltrace.capture.choose_samples(SAMPLES)
    for sample in descending(SAMPLES):
        rollout(sample, trace=sample in chosen)
    assert samples(kept(tmp_path)) == chosen == set(smallest(2))
    assert lost(tmp_path) == 0
