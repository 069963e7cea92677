"""A listing as SQL gives the rows of the listing."""

from __future__ import annotations

import pytest

from rolltrace.query import FilterError, QueryError, Scope, Store, group_page, listing_sql, trajectory_page

FILTERS = (
    None,
    "reward < 0.5",
    "flag = 'prefix_break' or tool = 'search'",
    "not (reward >= 0.5 and tag.difficulty = 'hard')",
    "text ~ 'it''s' or sample_index in (0, '17', 'hostile-<b>')",
    "score.advantage > 0 and group.std > 0.1",
    "reward = nan or reward > -inf",
    "tag.domain = '算术' and name !~ '?'",
    "validate = true and step is not null",
    "superseded = true",
)


@pytest.mark.parametrize("where", FILTERS)
def test_the_statement_finds_what_the_filter_finds(demo: Store, where: str | None) -> None:
    scope = Scope(project="maths", experiment="grpo-7b", step=2, where=where)
    listed = trajectory_page(demo, scope, order="-reward", limit=1000).rows
    rows = demo.sql(listing_sql("trajectories", scope, "-reward")).rows()
    assert {row["trajectory_id"] for row in rows} == {row["trajectory_id"] for row in listed}
    assert [repr(row["reward"]) for row in rows] == [repr(row["reward"]) for row in listed]
    groups = demo.sql(listing_sql("groups", scope, "-mean")).rows()
    assert {str(row["sample_index"]) for row in groups} == {
        str(row["sample_index"]) for row in group_page(demo, scope, limit=1000).rows
    }


def test_steps_and_experiments_are_counted_from_their_trajectories(demo: Store) -> None:
    steps = demo.sql(listing_sql("steps", Scope(project="maths", experiment="grpo-7b"))).rows()
    known = demo.steps(project="maths", experiment="grpo-7b").rows()
    names = ("step", "validate", "trajectories")
    assert sorted([row[name] for name in names] for row in steps) == sorted(
        [row[name] for name in names] for row in known
    )
    experiments = demo.sql(listing_sql("experiments", Scope())).rows()
    assert {row["experiment"]: row["trajectories"] for row in experiments} == {
        row["experiment"]: row["trajectories"] for row in demo.experiments()
    }


def test_values_stay_values(demo: Store) -> None:
    scope = Scope(project="it's'; DROP TABLE x; --", where="name = '''?'' or true'")
    assert demo.sql(listing_sql("trajectories", scope)).rows() == []


def test_what_is_wrong_is_said(demo: Store) -> None:
    with pytest.raises(FilterError):
        listing_sql("trajectories", Scope(where="rewrd < 1"))
    with pytest.raises(QueryError, match="cannot be sorted by"):
        listing_sql("groups", Scope(), "nonsense")
