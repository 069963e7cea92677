"""Listings page by page."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.query import QueryError, Scope, Store, facets_of, group_page, step_series, trajectory_page

MATHS = Scope(project="maths", experiment="grpo-7b")


@pytest.mark.parametrize("order", ["reward", "-reward", "sample,-rollout_n", "-flags", "tags", "-end_ns"])
def test_every_order_has_every_row_once(demo: Store, order: str) -> None:
    seen: list[str] = []
    page = trajectory_page(demo, MATHS, order=order, limit=20)
    seen += [row["trajectory_id"] for row in page.rows]
    while page.next is not None:
        page = trajectory_page(demo, MATHS, order=order, limit=20, after=page.next)
        seen += [row["trajectory_id"] for row in page.rows]
    assert len(seen) == len(set(seen)) == page.total == len(demo.trajectories(project="maths", experiment="grpo-7b"))


def test_a_row_that_comes_before_shifts_nothing(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")

    def add(sample: int) -> None:
        with rolltrace.rollout_trace_attr(sample, 1, 0):
            pass

    for sample in (10, 20, 30, 40):
        add(sample)
    store = rolltrace.open(tmp_path)
    first = trajectory_page(store, Scope(), order="sample", limit=2)
    add(5)
    store.refresh()
    second = trajectory_page(store, Scope(), order="sample", limit=2, after=first.next)
    assert [row["sample_index"] for row in (*first.rows, *second.rows)] == [10, 20, 30, 40]
    assert second.total == 5


@pytest.mark.parametrize("after", ["", "x", "AAAA", "kgE", "../..", "é"])
def test_what_is_no_page_is_refused(demo: Store, after: str) -> None:
    with pytest.raises(QueryError, match="not the `next` of a page"):
        trajectory_page(demo, MATHS, after=after)


def test_groups_agree_with_the_listing_of_groups(demo: Store) -> None:
    page = group_page(demo, Scope(project="maths", experiment="grpo-7b", step=1), order="-mean")
    known = demo.groups(project="maths", experiment="grpo-7b", step=1, order="-mean").rows()
    assert [{key: row[key] for key in known[0]} for row in page.rows] == known


def test_series_agree_with_the_steps(demo: Store) -> None:
    series = step_series(demo, project="maths", experiment="grpo-7b").training
    steps = [row for row in demo.steps(project="maths", experiment="grpo-7b") if not row["validate"]]
    for name in ("step", "trajectories", "samples", "errors", "pass_rate", "zero_variance_share", "turns_mean"):
        assert series[name] == [row[name] for row in steps], name


def test_older_runs_are_counted_and_can_be_asked_for(demo: Store) -> None:
    newest = trajectory_page(demo, MATHS)
    every = trajectory_page(demo, Scope(project="maths", experiment="grpo-7b", all_runs=True))
    assert newest.older_runs.trajectories == every.total - newest.total > 0
    assert every.older_runs.trajectories == 0


def test_facets_of_nothing_are_empty(demo: Store) -> None:
    facets = facets_of(demo, Scope(experiment="none"))
    assert (facets.total, facets.facets) == (0, [])
    assert all(histogram.counts == [] for histogram in facets.histograms)


def test_a_tag_of_any_name_and_type_can_be_narrowed_down_to(tmp_path: Path) -> None:
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off")
    tags = {"it's": 'o\'clock \\ "x"', "a b/~": 1.5, "yes": True, "none": None, "list": [1], "n": 7}
    with rolltrace.rollout_trace_attr(1, 1, 0, **tags):
        pass
    store = rolltrace.open(tmp_path)
    found = {facet.field: facet.values[0].where for facet in facets_of(store, Scope()).facets}
    for name in ("tag.'it''s'", "tag.'a b/~'", "tag.yes", "tag.n"):
        assert trajectory_page(store, Scope(where=found[name])).total == 1, found[name]
    assert "tag.list" not in found
