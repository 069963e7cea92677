"""A store that answers SQL: data that is fresh, answers that say what they lack and why they are empty."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rolltrace.errors import NotFoundError, QueryError
from rolltrace.query.damage import Incomplete, Stored, Teller
from rolltrace.query.database import duckdb
from rolltrace.query.engine import Engine
from rolltrace.query.filters import Predicate, compile_where
from rolltrace.query.nothing import Asked, explain, missing_values, unknown_name
from rolltrace.query.result import Result
from rolltrace.query.scope import Scope
from rolltrace.query.snapshot import ScopeKey
from rolltrace.query.views import VIEWS
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
        except duckdb.Error as fault:
            raise QueryError(str(fault)) from None
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
