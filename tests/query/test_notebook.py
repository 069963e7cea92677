"""What a notebook shows: small, escaped, no scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.query import Store, open_store
from rolltrace.testing import rollouts

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("notebook")

    @rolltrace.rollout_trace_op(kind="llm", name=f"generate {HOSTILE}")
    def generate(prompt: str) -> dict[str, object]:
        return {"text": prompt * 2_000, "token_ids": [1, 2, 3]}

    with rollouts(folder):
        for rollout_n, prompt in enumerate((HOSTILE, "other")):
            with rolltrace.rollout_trace_attr(step=3, sample_index=7, rollout_n=rollout_n, name=HOSTILE) as handle:
                generate(prompt)
                handle.reward(0.25 + rollout_n / 2)
                handle.note(f"odd {HOSTILE}")
    return open_store(folder)


def assert_plain(page: str) -> None:
    assert "<script" not in page
    assert "<img" not in page
    assert len(page) < 20_000


def test_a_store_shows_its_folder_and_its_experiments(store: Store) -> None:
    page = store._repr_html_()
    assert_plain(page)
    assert str(store.path) in page
    assert "<th>trajectories</th>" in page


def test_an_empty_store_says_so(tmp_path: Path) -> None:
    assert "no trajectories yet" in open_store(tmp_path)._repr_html_()


def test_a_trajectory_shows_its_reward_its_notes_and_its_ops(store: Store) -> None:
    page = store.trajectory(store.trajectories()[0]["trajectory_id"])._repr_html_()
    assert_plain(page)
    assert "reward 0.25" in page
    assert "note: odd &lt;script&gt;" in page
    assert "generate &lt;script&gt;" in page


def test_an_op_shows_the_beginning_of_its_inputs_and_outputs(store: Store) -> None:
    op = store.trajectory(store.trajectories()[0]["trajectory_id"]).ops[0]
    page = op._repr_html_()
    assert_plain(page)
    assert "prompt" in page
    assert "&lt;script&gt;" in page


def test_a_comparison_shows_rewards_and_where_they_diverge(store: Store) -> None:
    page = store.compare_group(3, 7)._repr_html_()
    assert_plain(page)
    assert "They diverge in turn 0." in page
    assert "<td>0.25</td><td>0.75</td>" in page
