"""Which samples of a batch are traced when it is split among workers."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from rolltrace.integrations.verl.batch import whole_groups


def held_by(samples: list[int], workers: int) -> dict[int, set[int]]:
    """The samples that each worker gets, as verl splits a batch."""
    size = len(samples) // workers
    found = defaultdict(set)
    for row, sample in enumerate(samples):
        found[row // size].add(sample)
    return found


@given(
    samples=st.lists(st.integers(0, 1000), min_size=1, max_size=20, unique=True),
    n=st.integers(1, 8),
    workers=st.integers(1, 6),
    limit=st.integers(0, 3),
    seed=st.integers(0, 9),
)
def test_no_worker_has_more_than_the_limit_nor_less_than_fits(
    samples: list[int], n: int, workers: int, limit: int, seed: int
) -> None:
    rows = [sample for sample in samples for _ in range(n)]
    rows = rows[: len(rows) // workers * workers]
    chosen = whole_groups(rows, workers, limit, seed)
    shares = held_by(rows, workers)
    assert all(len(share & chosen) <= limit for share in shares.values())
    for left_out in set(rows) - chosen:
        full = [share for share in shares.values() if left_out in share and len(share & chosen) == limit]
        assert full, f"{left_out} would have fitted"


def test_a_group_over_two_workers_counts_for_both() -> None:
    rows = [0] * 4 + [1] * 4 + [2] * 4  # sample 1 is split
    found = {frozenset(whole_groups(rows, 2, 1, seed)) for seed in range(50)}
    assert found == {frozenset({1}), frozenset({0, 2})}


def test_another_seed_chooses_others() -> None:
    rows = list(range(100))
    assert whole_groups(rows, 4, 2, seed=0) == whole_groups(rows, 4, 2, seed=0)
    assert whole_groups(rows, 4, 2, seed=0) != whole_groups(rows, 4, 2, seed=1)


def test_an_empty_batch() -> None:
    assert whole_groups([], 2, 1, 0) == set()
