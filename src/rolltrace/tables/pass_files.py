"""What pass means in the experiments of a store, wherever the store is (`rolltrace.pass_rule` decides what it says).

In a folder, one file per experiment. Of a store on object storage these are objects that all hosts share; a rollout
process, which knows nothing of object storage, leaves its choice in the local folder, and the drainer takes it there.
"""

from __future__ import annotations

from pathlib import Path

from rolltrace._address import StoreAddress, address_in
from rolltrace._guard import logger
from rolltrace.errors import RolltraceError
from rolltrace.pass_rule import (
    FOLDER,
    Experiment,
    PassRule,
    change_page,
    file_name,
    read_choice,
    rules_in,
    write_rule,
)
from rolltrace.tables.storage import read_shared, remove_shared, write_shared


def read_pass_rules(store: Path) -> dict[Experiment, PassRule]:
    """What was chosen, by experiment."""
    return rules_in(read_shared(address_in(store), FOLDER))


def write_pass_rule(store: Path, project: str, experiment: str, rule: PassRule, *, run: str | None = None) -> None:
    """As `pass_rule.write_rule`, for a store that may be on object storage."""
    address = address_in(store)
    if address.folder is not None:
        write_rule(store, project, experiment, rule, run=run)
        return
    name = file_name(project, experiment)
    content = change_page(read_shared(address, FOLDER).get(name), project, experiment, rule, run)
    if content is not None:
        write_shared(address, f"{FOLDER}/{name}", content)


def forget_pass_rule(store: Path, project: str, experiment: str) -> None:
    """Remove what pass means in an experiment that is deleted, also what waits here to be published."""
    for address in {address_in(store), StoreAddress.parse(store)}:
        remove_shared(address, f"{FOLDER}/{file_name(project, experiment)}")


def publish_pass_rules(store: Path) -> None:
    """Take what processes of this host chose to object storage. What cannot be taken there now is tried again."""
    for file in (store / FOLDER).glob("*.json") if address_in(store).folder is None else ():
        try:
            content = file.read_bytes()
            choice = read_choice(content)
            if choice is not None:
                write_pass_rule(store, choice.project, choice.experiment, choice.rule, run=choice.run)
            if file.read_bytes() == content:
                file.unlink()
        except (RolltraceError, OSError) as error:
            logger.warning("what pass means is not at %s yet: %s", address_in(store).url, error)
