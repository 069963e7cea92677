"""Which rollouts pass, as SQL: the listing with a verdict on each of its rows, and what questions need of that.

What pass means is decided in `pass_rule`. Each experiment has its own rule; a question may bring one for all. A rollout
without a reward has no verdict. One whose reward lacks the term has not passed, unless no reward has that term at all:
then the rule is a mistake, and nothing has a verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rolltrace.errors import ConfigError, QueryError
from rolltrace.pass_rule import NOT_CHOSEN, Experiment, PassMeaning, PassRule
from rolltrace.query.arguments import conditions_of
from rolltrace.query.group_views import GROUP_VIEWS
from rolltrace.settings import nearest

if TYPE_CHECKING:
    from rolltrace.query.dataset import Store

JUDGED = "_judged"
PASS_COLUMNS = (
    "trajectory_id", "project", "experiment", "step", "sample_index", "rollout_n", "validate", "run", "superseded",
    "passed", "pass_rule",
)  # fmt: skip
"""The columns of `passes`, in order."""
_BINARY = """
SELECT project, experiment, count(reward) > 0 AND count(*) FILTER (reward <> 0 AND reward <> 1) = 0 AS is_binary
FROM _listing t WHERE {where} GROUP BY project, experiment ORDER BY min(start_ns), project, experiment
"""
_TERMS = """
SELECT DISTINCT unnest(map_keys(terms)) AS term FROM _listing t WHERE terms IS NOT NULL AND {where} ORDER BY term
"""


def judged_select(
    rules: Mapping[Experiment, PassRule], everywhere: PassRule | None = None, listing: str = "_listing"
) -> str:
    """SQL: a listing with `_passed` and `pass_rule`; `everywhere` is a rule that counts instead of those."""
    rules = {} if everywhere is not None else rules
    other = everywhere or NOT_CHOSEN
    terms = sorted({rule.term for rule in (*rules.values(), other) if rule.term is not None})
    cases = [(_is_of(experiment), rule) for experiment, rule in sorted(rules.items())]
    passed = _choose([(where, _verdict(rule, terms)) for where, rule in cases], _verdict(other, terms))
    text = rule_text_sql(rules, everywhere)
    select = f"SELECT t.*, CASE WHEN t.reward IS NOT NULL THEN {passed} END AS _passed, {text} AS pass_rule"
    if not terms:
        return f"{select} FROM {listing} t"
    used = ", ".join(f"bool_or(map_contains(terms, {_literal(term)})) AS v{at}" for at, term in enumerate(terms))
    return f"{select} FROM {listing} t, (SELECT {used} FROM _listing WHERE terms IS NOT NULL) used"


def rule_text_sql(rules: Mapping[Experiment, PassRule], everywhere: PassRule | None = None) -> str:
    """SQL: what pass means in the experiment of a row `t`, in words."""
    if everywhere is not None:
        return _literal(everywhere.text)
    cases = [(_is_of(experiment), _literal(rule.text)) for experiment, rule in sorted(rules.items())]
    return _choose(cases, _literal(NOT_CHOSEN.text))


def pass_views(rules: Mapping[Experiment, PassRule], everywhere: PassRule | None = None) -> dict[str, str]:
    """Name -> SQL of the views that say what passed, each after those that it reads."""
    return {
        JUDGED: judged_select(rules, everywhere),
        "_passes": f"SELECT {', '.join(PASS_COLUMNS).replace('passed,', '_passed AS passed,')} FROM {JUDGED}",
        "passes": "SELECT * FROM _passes",
        **GROUP_VIEWS,
    }


def with_rule(rule: PassRule | None, before: Sequence[str] = ()) -> list[str]:
    """The pieces of a WITH, `name AS (...)`, after which a question sees this rule in all experiments."""
    if rule is None:
        return list(before)
    named = {piece.partition(" AS ")[0] for piece in before}
    views = {name: sql for name, sql in pass_views({}, rule).items() if name not in named}
    return [*(f"{name} AS ({sql})" for name, sql in views.items() if "group_records" not in name), *before]


def resolve_rule(store: Store, term: Any, threshold: Any, **place: Any) -> PassRule | None:
    """The rule that a question brings; None if it brings none.

    Raises:
        QueryError: the threshold is no number, or no reward of these experiments has the term.
    """
    try:
        rule = PassRule.of(term, threshold)
    except ConfigError as error:
        raise QueryError(str(error)) from None
    if not rule.is_chosen:
        return None
    if rule.term is not None and (problem := _term_problem(store, rule.term, place)) is not None:
        raise QueryError(problem)
    return rule


def pass_meanings(
    store: Store, *, project: str | None = None, experiment: str | None = None, asked: PassRule | None = None
) -> list[PassMeaning]:
    """What pass means in each experiment, the oldest first; `asked` instead of what is stored."""
    where, values = conditions_of(project=project, experiment=experiment)
    rules = store._engine.pass_rules
    meanings = []
    for row in store._ask(_BINARY.format(where=where), values, plain=True):
        key = row["project"], row["experiment"]
        rule = asked or rules.get(key, NOT_CHOSEN)
        problem = None
        if asked is None and rule.term is not None:
            problem = _term_problem(store, rule.term, {"project": key[0], "experiment": key[1]})
        meanings.append(PassMeaning(*key, rule, bool(row["is_binary"]), problem))
    return meanings


def verdicts_of(
    store: Store, trajectory_ids: Sequence[str], *, term: str | None = None, threshold: float | None = None
) -> dict[str, bool | None]:
    """Which of these trajectories passed; None for one without a reward.

    Raises:
        QueryError: no reward has the term, or the threshold is no number.
    """
    if not trajectory_ids:
        return {}
    pieces = with_rule(resolve_rule(store, term, threshold))
    once = f"WITH {', '.join(pieces)} " if pieces else ""
    ids = ", ".join("?" * len(trajectory_ids))
    rows = store._ask(f"{once}SELECT trajectory_id, passed FROM passes WHERE trajectory_id IN ({ids})", trajectory_ids)
    return {row["trajectory_id"]: row["passed"] for row in rows}


def _term_problem(store: Store, term: str, place: Mapping[str, Any]) -> str | None:
    """Why a term cannot be what pass means; None if it can, or if there is no reward with terms yet."""
    known = (term, *place.values())
    if known in store._known_terms:
        return None
    where, values = conditions_of(**place)
    names = [row["term"] for row in store._ask(_TERMS.format(where=where), values, plain=True)]
    if term in names:
        store._known_terms.add(known)
        return None
    of = " of " + " / ".join(str(name) for name in place.values() if name) if any(place.values()) else ""
    if not names:
        return f"no reward{of} has the term {term!r}: none has any terms; choose a threshold on the reward"
    near = nearest(term, names)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"no reward{of} has the term {term!r}; {hint}there are: {', '.join(names)}"


def _verdict(rule: PassRule, terms: list[str]) -> str:
    """SQL: whether a row `t` that has a reward has passed."""
    if rule.term is None:
        return rule.sql("t.reward")
    passed = rule.sql(f"t.terms[{_literal(rule.term)}]")
    return f"CASE WHEN used.v{terms.index(rule.term)} THEN coalesce({passed}, false) END"


def _is_of(experiment: Experiment) -> str:
    project, name = experiment
    return f"(t.project = {_literal(project)} AND t.experiment = {_literal(name)})"


def _choose(cases: list[tuple[str, str]], other: str) -> str:
    if not cases:
        return other
    return f"CASE {' '.join(f'WHEN {where} THEN {sql}' for where, sql in cases)} ELSE {other} END"


def _literal(text: str) -> str:
    quoted = text.replace("'", "''")
    return f"'{quoted}'"
