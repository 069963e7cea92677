"""What pass means in the experiments that a command is about, and how its tables say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rolltrace.cli.options import Options
from rolltrace.cli.output import plain, warn

if TYPE_CHECKING:
    from rolltrace.pass_rule import PassMeaning
    from rolltrace.query import Store

Rows = Sequence[Mapping[str, Any]]


class Passing(NamedTuple):
    """The meanings of some experiments."""

    meanings: Sequence[PassMeaning] = ()

    def title(self, rows: Rows) -> str:
        """The title of a column: `pass`, or `reward > 0` where nobody has chosen and rewards are not 0 or 1."""
        return plain(" or ".join(dict.fromkeys(each.title for each in self._shown(rows)))) or "pass"

    def facts(self, rows: Rows) -> list[str]:
        """What is said below a table of shares: `pass: correct >= 1`, of which experiment if they differ."""
        shown, title = self._shown(rows), self.title(rows)
        return [fact for fact in _per_experiment(shown, [each.text for each in shown]) if fact != title]

    def rules(self, rows: Rows) -> list[str]:
        """What is said below a table that has a column `passed`."""
        shown = self._shown(rows)
        return _per_experiment(shown, [each.text if each.title == "pass" else f"passed: {each.text}" for each in shown])

    def _shown(self, rows: Rows) -> list[PassMeaning]:
        places = {(row["project"], row["experiment"]) for row in rows}
        return [each for each in self.meanings if (each.project, each.experiment) in places]


def read_passing(options: Options, store: Store) -> Passing:
    """What pass means in the experiments that were asked for; stores it first with `--save`."""
    named = getattr(options, "experiment", None)
    rule, project = options.rule, getattr(options, "project", None)
    if options.save and not rule:
        options.usage_error("--save stores what --term or --threshold say; add one of them")
    meanings: list[PassMeaning] = []
    for name in named if isinstance(named, list) else [named]:
        if options.save:
            for meaning in store.set_pass(project=project, experiment=name, **rule):
                warn(f"stored with {plain(f'{meaning.project} / {meaning.experiment}')}: {plain(meaning.text)}")
        meanings += store.pass_meanings(project=project, experiment=name, **rule)
    for meaning in meanings:
        if meaning.problem is not None:
            stored = f"pass is stored as {plain(meaning.rule.text)}, but {plain(meaning.problem)}"
            warn(f"{stored}; choose another with --term NAME --save")
    return Passing(meanings)


def _per_experiment(meanings: Sequence[PassMeaning], texts: Sequence[str]) -> list[str]:
    """The text of each; one that all have is said once, others with their experiment."""
    if len(set(texts)) < 2:
        return [plain(text) for text in texts[:1]]
    return [plain(f"{text} ({each.project} / {each.experiment})") for each, text in zip(meanings, texts)]
