"""What "pass" means in an experiment: a threshold on the reward, or on one of its terms.

This is the only place that decides it. `PassRule` gives the words for people and the SQL for questions; `query.views`
applies it to trajectories. Nobody has to choose: then a reward above 0 counts, and tables say `reward > 0`, not `pass`,
unless all rewards are 0 or 1.

    STORE/pass/HASH.json        {"project": "p", "experiment": "e", "term": "correct", "threshold": 1.0, "run": "..."}

One file per experiment, replaced as a whole: the last writer counts. An `init` writes it once per run, so that a worker
which starts late does not undo what somebody chose in the viewer meanwhile.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from rolltrace.errors import ConfigError, StoreError
from rolltrace.files import check_inside, make_folder, read_page, replace_file

FOLDER = "pass"
"""Of a store."""
DEFAULT_TERM_THRESHOLD = 1.0
Experiment = tuple[str, str]
"""Project and experiment."""


class PassRule(NamedTuple):
    """When a rollout that has a reward has passed; without a term and a threshold, nobody has chosen."""

    term: str | None = None
    threshold: float | None = None

    @classmethod
    def of(cls, term: Any = None, threshold: Any = None) -> PassRule:
        """The rule that somebody asked for.

        Raises:
            ConfigError: the term is no name, or the threshold no finite number.
        """
        if term is not None and (not isinstance(term, str) or not term):
            raise ConfigError(f"term must be the name of a reward term such as 'correct', not {term!r:.60}")
        if threshold is None:
            return cls(term, None if term is None else DEFAULT_TERM_THRESHOLD)
        if isinstance(threshold, bool) or not isinstance(threshold, int | float) or not math.isfinite(threshold):
            raise ConfigError(f"threshold must be a finite number, not {threshold!r:.60}")
        return cls(term, float(threshold))

    @property
    def is_chosen(self) -> bool:
        return self.threshold is not None

    @property
    def text(self) -> str:
        """The condition: `correct >= 1`, `reward >= 0.5`, or `reward > 0` if nobody has chosen."""
        if self.threshold is None:
            return "reward > 0"
        name = "reward" if self.term is None else "term.reward" if self.term == "reward" else self.term
        return f"{name} >= {_number(self.threshold)}"

    def sql(self, value: str) -> str:
        """SQL of the condition on a value, which is never NaN where the condition holds: DuckDB takes NaN for large."""
        compared = "> 0" if self.threshold is None else f">= {self.threshold!r}::DOUBLE"
        return f"({value} {compared} AND NOT isnan({value}))"


NOT_CHOSEN = PassRule()


class PassMeaning(NamedTuple):
    """What pass means in one experiment."""

    project: str
    experiment: str
    rule: PassRule
    is_binary: bool = False
    """All rewards of the experiment are 0 or 1."""
    problem: str | None = None
    """Why nothing can be said to pass: no reward has the term."""

    @property
    def title(self) -> str:
        """What a column of a table is called: `pass`, or the condition itself if nobody has said that it means pass."""
        return "pass" if self.rule.is_chosen or self.is_binary else self.rule.text

    @property
    def text(self) -> str:
        """What is printed where the figure is used: `pass: correct >= 1`, `pass: reward = 1` or `reward > 0`."""
        if self.rule.is_chosen:
            return f"pass: {self.rule.text}"
        return "pass: reward = 1" if self.is_binary else self.rule.text


class Choice(msgspec.Struct):
    """What the file of an experiment says."""

    project: str
    experiment: str
    term: str | None = None
    threshold: float | None = None
    run: str | None = None
    """The run whose `init` chose last."""

    @property
    def rule(self) -> PassRule:
        return PassRule.of(self.term, self.threshold)


def rules_in(files: Mapping[str, bytes]) -> dict[Experiment, PassRule]:
    """What the files of these names say, by experiment. One that cannot be read is left out: nobody has chosen then."""
    rules: dict[Experiment, PassRule] = {}
    for name, content in files.items():
        choice = read_choice(content)
        if choice is not None and choice.rule.is_chosen and name == file_name(choice.project, choice.experiment):
            rules[choice.project, choice.experiment] = choice.rule
    return rules


def write_rule(store: Path, project: str, experiment: str, rule: PassRule, *, run: str | None = None) -> None:
    """Store what pass means in an experiment; a rule that is not chosen takes the choice back.

    Args:
        store: The store.
        project: Project of the experiment.
        experiment: Its name.
        rule: The rule.
        run: The run that chooses, in its `init`: it does so once, whatever others choose later.

    Raises:
        StoreError: it cannot be written.
    """
    file = store / FOLDER / file_name(project, experiment)
    content = change_page(_read(file), project, experiment, rule, run)
    if content is None:
        return
    try:
        check_inside(store, file)
        make_folder(file.parent)
        replace_file(file, content)
    except OSError as error:
        raise StoreError(f"cannot write {str(file)!r}: {error.strerror or error}") from error


def change_page(
    content: bytes | None, project: str, experiment: str, rule: PassRule, run: str | None = None
) -> bytes | None:
    """What the file of an experiment says after a choice, by what it said before; None if it stays as it is."""
    before = read_choice(content)
    if run is not None and before is not None and before.run == run:
        return None
    chosen_by = run if run is not None or before is None else before.run
    choice = Choice(project, experiment, rule.term, rule.threshold, chosen_by)
    return None if choice == before else msgspec.json.format(msgspec.json.encode(choice)) + b"\n"


def read_choice(content: bytes | None) -> Choice | None:
    """What a file says; None if it cannot be understood."""
    try:
        choice = None if content is None else msgspec.json.decode(content, type=Choice)
        if choice is not None:
            PassRule.of(choice.term, choice.threshold)
        return choice
    except (msgspec.MsgspecError, UnicodeDecodeError, ConfigError):
        return None


def rules_digest(rules: Mapping[Experiment, PassRule]) -> str:
    """A short text that is another one for other rules; empty if nobody has chosen."""
    return hashlib.blake2b(repr(sorted(rules.items())).encode(), digest_size=8).hexdigest() if rules else ""


def file_name(project: str, experiment: str) -> str:
    """The name of the file of an experiment, in the folder `pass`."""
    name = hashlib.blake2b(f"{project}\0{experiment}".encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()
    return f"{name}.json"


def _read(file: Path) -> bytes | None:
    try:
        return read_page(file)
    except OSError:
        return None


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
