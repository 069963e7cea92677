"""A store that answers SQL: data that is fresh, answers that say what they lack and why they are empty."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from rolltrace._address import address_in
from rolltrace.errors import NotFoundError, QueryError
from rolltrace.flags import ALWAYS_ON, FLAGS
from rolltrace.query.damage import Incomplete, Stored, Teller
from rolltrace.query.database import duckdb
from rolltrace.query.engine import Engine
from rolltrace.query.filter_fields import FIELDS, Field
from rolltrace.query.filters import Predicate, compile_where
from rolltrace.query.result import Result
from rolltrace.query.scope import Scope
from rolltrace.query.snapshot import ScopeKey
from rolltrace.query.views import VIEWS
from rolltrace.record import OP_KINDS
from rolltrace.tables import Place

S = TypeVar("S", bound="SqlStore")
_SHORTEST_PREFIX = 4
_NAMED = ("project", "experiment", "step", "sample_index", "rollout_n", "validate", "run")
"""What an empty answer is explained by, besides its filter."""
_PRAGMA = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*pragma\b", re.IGNORECASE | re.DOTALL)


class SqlStore:
    """Answers SQL over the views of a store. `Store` asks it about trajectories."""

    def __init__(self, path: Path, *, memory_limit: str | None = None, drains: bool = True) -> None:
        self.path = path
        self._engine = Engine(path, memory_limit=memory_limit, drains=drains)
        self._teller = Teller(path)
        self._known_fields: set[str] = set()
        """Such as `term.format`: fields whose name occurs in the store."""
        self._known_terms: set[tuple[Any, ...]] = set()
        """Reward terms that were found, each with its place: see `query.scope`."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    def close(self) -> None:
        """Give back memory and open files. A question after that opens them again."""
        self._engine.close()

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def sql(
        self, text: str, parameters: Sequence[Any] | dict[str, Any] | None = None, *, step: int | None = None
    ) -> Result:
        """The answer to one SELECT over the views; see `query.views` for what there is.

        Args:
            text: The statement.
            parameters: The values of its `?`, or by name of its `$name`.
            step: Look only at what belongs to this step, which is faster than a condition in the statement.

        Raises:
            QueryError: the statement is wrong, or does more than read the views.
        """
        try:
            statements = duckdb.extract_statements(text)
        except duckdb.Error as error:
            raise QueryError(str(error)) from None
        # Some versions of DuckDB call a PRAGMA that gives a table a SELECT.
        is_pragma = len(statements) == 1 and _PRAGMA.match(text) is not None
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT or is_pragma:
            what = (
                "PRAGMA"
                if is_pragma
                else statements[0].type.name
                if len(statements) == 1
                else f"{len(statements)} statements"
            )
            raise QueryError(
                f"sql() is read-only: pass one SELECT, WITH, FROM, DESCRIBE or SUMMARIZE, not {what}; "
                f"there are {', '.join(VIEWS)}"
            )
        return self._ask(text, parameters or (), step, bounded=True)

    def refresh(self) -> None:
        """Look for new data now, and not only when the last look is a second old; wait for all that was recorded.

        Raises:
            StoreError: a minute was not enough to drain it.
        """
        self._engine.refresh(now=True, everything=True)
        self._teller.tell(self._engine.incomplete())

    def version(self, step: int | None = None) -> str:
        """A text that is another one as soon as an answer about this step, or about all, may be another one."""
        return self._engine.version(step)

    @property
    def incomplete(self) -> Incomplete:
        """What the store has and its answers so far lack, because it could not be read; false if nothing."""
        return self._engine.incomplete()

    def damaged(self, *, thorough: bool = False) -> list[tuple[Path, str]]:
        """Files that cannot be read, and why. `thorough` reads every page of every file."""
        return self._engine.damaged(thorough=thorough)

    def stored(self) -> Stored:
        """How many data files there are, with how many rows of each table; journals are not counted."""
        return self._engine.stored()

    def full_id(self, prefix: str) -> str:
        """The id of the trajectory that begins so.

        Raises:
            QueryError: no trajectory has this id, or several begin with it.
        """
        return self._find(prefix)[0]

    def scope_of(self, rows: Iterable[Mapping[str, Any]]) -> frozenset[Place]:
        """The steps of these rows of a listing, to look nowhere else."""
        return frozenset(Place(row["project"], row["experiment"], row["step"]) for row in rows)

    def _find(self, prefix: str) -> tuple[str, int | None]:
        """The full id that begins so, and its step."""
        wanted = prefix.strip().lower() if isinstance(prefix, str) else ""
        if not re.fullmatch(rf"[0-9a-f]{{{_SHORTEST_PREFIX},32}}", wanted):
            raise QueryError(
                f"a trajectory id is 32 hexadecimal digits, or a prefix of at least {_SHORTEST_PREFIX}; not {prefix!r}"
            )
        rows = self._ask(
            "SELECT trajectory_id, step FROM _listing WHERE trajectory_id BETWEEN ? AND ? ORDER BY 1 LIMIT 9",
            [wanted.ljust(32, "0"), wanted.ljust(32, "f")],
            plain=True,
        ).rows()
        ids = [row["trajectory_id"] for row in rows]
        if not ids:
            full = wanted if len(wanted) == 32 else f"{wanted}..."
            raise NotFoundError(f"no trajectory has the id {full} in the store {str(self.path)!r}")
        if len(ids) > 1:
            candidates = [*ids[:8], *["..."] * (len(ids) > 8)]
            raise QueryError(f"several trajectory ids start with {wanted}: {', '.join(candidates)}")
        return ids[0], rows[0]["step"]

    def _ask(
        self,
        sql: str,
        parameters: Sequence[Any] | dict[str, Any] = (),
        scope: ScopeKey = None,
        *,
        plain: bool = False,
        bounded: bool = False,
    ) -> Result:
        """The answer to a question of ours; `plain`: its rows are few, or all wanted as dicts: without Arrow."""
        if plain:
            answer = Result(self._engine.plain_rows(sql, parameters, scope))
        else:
            answer = Result(self._engine.query(sql, parameters, scope, bounded=bounded))
        answer._store_path = self.path
        answer.incomplete = self._engine.incomplete()
        self._teller.tell(answer.incomplete)
        return answer

    def _ask_plainly(self, sql: str, parameters: Sequence[Any] = ()) -> Result:
        """The answer to a question that has few rows."""
        return self._ask(sql, parameters, plain=True)

    def _explained(self, answer: Result, what: str, scope: Scope, predicate: Predicate | None = None) -> Result:
        """The answer to a question about a scope, which can say why it is empty; the predicate is that of its filter
        if not given."""
        predicate = predicate or compile_where(scope.where)
        named = [Asked(name, getattr(scope, name)) for name in _NAMED if getattr(scope, name) is not None]
        filtered = bool(named) or bool(predicate.fields)
        named += itertools.starmap(Asked, predicate.values)
        self._teller.tell_unknown(self.unknown_names(predicate))
        answer._explain = lambda: explain(self._ask_plainly, self.path, what, named, filtered=filtered)
        return answer

    def check_names(self, **names: str | Sequence[str] | None) -> None:
        """See to it that the store has what was named: `check_names(experiment="grpo-7b")`.

        Args:
            **names: One name or several of a project, experiment or run; None is not looked at.

        Raises:
            NotFoundError: it does not; the message names the nearest that it has.
        """
        asked = [
            Asked(field, name)
            for field, given in names.items()
            for name in ([given] if isinstance(given, str) else given or ())
        ]
        if missing_values(self._ask_plainly, asked):
            raise NotFoundError(explain(self._ask_plainly, self.path, "trajectories", asked, filtered=True))

    def unknown_names(self, predicate: Predicate) -> list[str]:
        """What to say of each term, score, label or tag that a filter asks about and nothing in the store has."""
        problems = []
        for field in predicate.fields:
            if field not in self._known_fields:
                problem = unknown_name(self._ask_plainly, field)
                problems += [] if problem is None else [problem]
                if problem is None:
                    self._known_fields.add(field)
        return problems

    def _paged(self, answer: Result, limit: int | None, offset: int) -> Result:
        """The answer, which blames the paging where it may be empty for that."""
        if limit == 0 or offset:
            answer._explain = lambda: f"no rows of the store {str(self.path)!r} with limit {limit} and offset {offset}"
        return answer


Ask = Callable[[str, Sequence[Any]], Any]
"""Gives the answer to a statement, as `Result`."""

MAX_NAMED = 8
"""How many values are named."""
_MAX_COMPARED = 1000
"""Among how many the nearest is looked for."""
_POSSIBLE = {
    "status": ("ok", "error", "cancelled", "running", "interrupted"),
    "kind": OP_KINDS,
    "flag": tuple(flag.name for flag in (*FLAGS, *ALWAYS_ON)),
}
"""Values that a field may have, in whatever store."""
_OTHER_WORDS = {
    "status": {
        "failed": "error", "failure": "error", "fail": "error", "crashed": "error", "exception": "error",
        "success": "ok", "succeeded": "ok", "completed": "ok", "complete": "ok", "done": "ok", "finished": "ok",
        "aborted": "cancelled", "killed": "interrupted", "active": "running", "live": "running",
    },
}  # fmt: skip
"""What other tools call a value; letter by letter, 'failed' is nearer to 'cancelled' than to 'error'."""
_CALLED = {"sample_index": "sample", "rollout_n": "rollout"}
_NAMES = {
    "tag": "SELECT unnest(json_keys(tags)) AS value FROM _listing WHERE tags IS NOT NULL",
    "score": "SELECT name AS value FROM scores",
    "term": "SELECT unnest(map_keys(terms)) AS value FROM _listing WHERE terms IS NOT NULL",
    "label": "SELECT name AS value FROM scores WHERE label IS NOT NULL",
    "author": "SELECT name AS value FROM scores WHERE label IS NOT NULL AND author IS NOT NULL",
    "flag": "SELECT unnest(flags) AS value FROM _listing",
}
"""Where the NAME of each field with one occurs."""


class Asked(NamedTuple):
    """A value that a field was to have."""

    field: str
    value: Any


def explain(ask: Ask, store: Path, what: str, asked: Sequence[Asked], *, filtered: bool) -> str:
    """One line for an empty answer.

    Args:
        ask: Asks the store.
        store: Its folder.
        what: What was asked for: trajectories, groups, ...
        asked: The values that were asked for.
        filtered: There were conditions.
    """
    line = f"no {what} in the store {address_in(store).url!r}"
    if not filtered:
        return line
    return f"{line} meet the filter" + "".join(f"; {reason}" for reason in missing_values(ask, asked))


def missing_values(ask: Ask, asked: Sequence[Asked]) -> list[str]:
    """What to say of each value that the store does not have."""
    return list(dict.fromkeys(filter(None, (_missing(ask, each) for each in asked))))


def unknown_name(ask: Ask, field: str) -> str | None:
    """What to say of the NAME of a field such as `term.NAME` that occurs nowhere in the store; None if it does."""
    kind, _, name = field.partition(".")
    possible = _POSSIBLE.get(kind, ())
    if kind not in _NAMES or not name or name in possible:
        return None
    if _exists(ask, (_NAMES[kind], []), name):
        return None
    names = [row["value"] for row in ask(f"SELECT DISTINCT value FROM ({_NAMES[kind]}) LIMIT {_MAX_COMPARED}", [])]
    return f"nothing in the store has the {kind} {name!r}; {suggest(name, names, possible) or f'there are no {kind}s'}"


def suggest(wanted: str, names: Sequence[str], possible: Sequence[str] = (), field: str = "") -> str:
    """`did you mean 'correct'? there are: 'correct', 'format'`; empty if there are none.

    Args:
        wanted: What was asked for.
        names: What there is.
        possible: What could be there, and may have been meant too.
        field: What it is a value of.
    """
    near: list[str] = []
    if wanted not in possible:
        lower = {each.casefold(): each for each in (*possible, *names)}
        other = _OTHER_WORDS.get(field, {}).get(wanted.casefold())
        near = [other] if other else [lower[each] for each in get_close_matches(wanted.casefold(), lower, 1, 0.5)]
    hint = f"did you mean {near[0]!r}? " if near else ""
    if not names:
        return hint
    named = ", ".join(map(repr, sorted(names, key=_by_number)[:MAX_NAMED]))
    more = ", ..." if len(names) > MAX_NAMED else ""
    return f"{hint}there {'is' if len(names) == 1 else 'are'}: {named}{more}"


def _missing(ask: Ask, asked: Asked) -> str | None:
    """What to say of a value that the store does not have; None if it has it, or if the field has no values to name."""
    name, _, key = asked.field.partition(".")
    field = FIELDS.get(asked.field) or FIELDS.get(f"{name}.NAME")
    source = None if field is None else _source(field, key)
    if field is None or source is None:
        return None
    called = _CALLED.get(asked.field, asked.field)
    if field.type == "number":
        return _out_of_range(ask, source, called, asked.value)
    sql, parameters = source
    rows = ask(
        f"SELECT DISTINCT value FROM ({sql}) WHERE value IS NOT NULL ORDER BY value LIMIT {_MAX_COMPARED}", parameters
    )
    values = [str(row["value"]) for row in rows]
    wanted = _text(asked.value)
    if wanted in values or (len(values) == _MAX_COMPARED and _exists(ask, source, wanted)):
        return None
    hint = suggest(wanted, values, _POSSIBLE.get(asked.field, ()), asked.field)
    return f"there is no {called} {wanted!r}; {hint}{'' if values else f'nothing has {_a(called)}'}"


def _out_of_range(ask: Ask, source: tuple[str, list[Any]], called: str, wanted: Any) -> str | None:
    sql, parameters = source
    if _exists(ask, source, wanted):
        return None
    (row,) = ask(
        f"SELECT min(value) AS least, max(value) AS most FROM ({sql}) WHERE NOT isnan(value::DOUBLE)", parameters
    )
    if row["least"] is None:
        return f"nothing has {_a(called)}"
    least, most = (f"{row[name]:.15g}" for name in ("least", "most"))
    return f"there is no {called} {wanted}; there {f'is only {least}' if least == most else f'are {least} to {most}'}"


def _exists(ask: Ask, source: tuple[str, list[Any]], wanted: Any) -> bool:
    sql, parameters = source
    return len(ask(f"SELECT 1 FROM ({sql}) WHERE value = ? LIMIT 1", [*parameters, wanted])) > 0


def _source(field: Field, key: str) -> tuple[str, list[Any]] | None:
    """A SELECT of all `value`s that a field has, and its parameters; None if there would be too many to name."""
    if field.type == "bool" or field.name in ("trajectory_id", "error", "fate_reason", "text"):
        return None
    if field.name == "flag":
        return "SELECT unnest(flags) AS value FROM _listing", []
    if field.name == "label":
        return "SELECT unnest(labels) AS value FROM _listing", []
    if field.name == "author":
        return "SELECT author AS value FROM latest_scores", []
    if field.name == "tool":
        return f"SELECT {field.sql} AS value FROM ops s WHERE s.kind = 'tool'", []
    if field.name in ("op", "kind"):
        return f"SELECT {field.sql} AS value FROM ops s", []
    if field.type == "tags":
        return f"SELECT {field.sql} AS value FROM _listing t", ["/" + key.replace("~", "~0").replace("/", "~1")]
    if field.sql.startswith("x."):
        return f"SELECT {field.sql} AS value FROM latest_scores x WHERE x.name = ?", [key]
    if field.sql.startswith("g."):
        return f"SELECT {field.sql} AS value FROM groups g", []
    table = "_places" if field.name in ("project", "experiment", "step") else "_listing"
    return f"SELECT {field.sql} AS value FROM {table} t", []


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _by_number(text: str) -> tuple[int, int, str]:
    """Numbers first, in their order."""
    digits = text.removeprefix("-")
    return (0, int(text), "") if digits.isascii() and digits.isdigit() and len(digits) < 19 else (1, 0, text)
