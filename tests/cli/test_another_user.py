"""Every command on a store that is somebody else's or read-only: what reads works, what writes says one clear line."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import rolltrace
from rolltrace.journal import journal_files
from rolltrace.query import open_store
from tests.another_user import Done, run_as_another
from tests.cli.conftest import write

Asked = tuple[str, ...]
READING: list[Asked] = [
    ("label",), ("ls",), ("ls", "--steps"), ("ls", "--experiments"), ("groups",), ("show", "ID"),
    ("diff", "--step", "1", "--sample", "1"), ("live", "--finished", "--once"), ("live",),
    ("sql", "select count(*) from spans"), ("stats",), ("export", "sft"),
    ("export", "jsonl"), ("export", "chrome"), ("store", "journal", "status"), ("store", "journal", "dump"),
    ("store", "retain"),
    ("store", "retain", "--dry-run", "--share", "0.5"), ("store", "prune", "--older-than", "1m", "--dry-run"),
    ("sync", "--to", "otlp", "--dry-run"),
]  # fmt: skip
WRITING: list[Asked] = [
    ("label", "ID", "--score", "note=hello"), ("label", "ID", "hack"),
    ("store", "drain"), ("store", "drain", "--once"), ("store", "compact",),
    ("store", "prune", "--older-than", "1m", "--yes"),
    ("store", "retain", "--share", "0.5"), ("store", "retain", "--off"), ("store", "retain", "--now"),
    ("import", "jsonl", "/dev/null"),
    ("sync", "--to", "otlp"), ("sync", "--to", "otlp", "--save"),
]  # fmt: skip
_FIRST = {each[: 2 if each[0] in ("live", "store") else 1]: each for each in reversed(READING)}
READING_THE_JOURNAL = [each for key, each in _FIRST.items() if key not in (("store", "journal"), ("store", "retain"))]
"""Each command once, as all of its questions open the store alike."""
STEP = Path("trajectories", "data", "p-e", "step-2")


class Asking(NamedTuple):
    """What another user saw."""

    stores: dict[str, Path]
    done: dict[tuple[str, Asked], Done]


def _write(store: Path) -> None:
    """Drained in part: the journal of another experiment waits."""
    write(store)
    rolltrace.init("p", "undrained", "rolltrace", store=store)
    with rolltrace.rollout_trace_attr(step=1, sample_index=0):
        pass
    rolltrace.shutdown()


def _may_only_be_read(store: Path) -> None:
    for folder, _, files in os.walk(store):
        os.chmod(folder, 0o555)
        for name in files:
            os.chmod(Path(folder, name), 0o444)


@pytest.fixture(scope="module")
def asking() -> Iterator[Asking]:
    """All that is asked here, by one process, on copies of a store that are closed to it in different ways."""
    folder = Path(tempfile.mkdtemp(prefix="rolltrace-"))
    folder.chmod(0o755)  # everybody may enter it, unlike pytest's
    (folder / "original").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROLLTRACE_DRAIN", "off")
        patch.setenv("ROLLTRACE_QUIET", "1")
        _write(folder / "original")
    (first, *_) = open_store(folder / "original", drains=False).trajectories(limit=1).rows()
    asked: dict[str, list[Asked]] = {
        "read-only": [*READING, *WRITING, ("doctor",)],
        "journal": READING_THE_JOURNAL,
        "journals": [("ls",), ("stats",), ("store", "journal", "status")],
        "step": [("ls", "--steps"), ("doctor",)],
        "private": [("ls",), ("stats",), ("export", "jsonl"), ("store", "drain", "--once"), ("doctor",)],
    }
    stores = {name: Path(shutil.copytree(folder / "original", folder / name)) for name in asked}
    for store in stores.values():
        _may_only_be_read(store)
    for path in journal_files(stores["journal"]):
        path.chmod(0)
    next((stores["journals"] / "journal").iterdir()).chmod(0)
    (stores["step"] / STEP).chmod(0)
    stores["private"].chmod(0)
    questions = [(name, each) for name, own in asked.items() for each in own]
    commands = [
        [first["trajectory_id"] if word == "ID" else word for word in (*each, "--store", str(stores[name]))]
        for name, each in questions
    ]
    try:
        yield Asking(stores, dict(zip(questions, run_as_another(commands), strict=True)))
    finally:
        for path in folder.rglob("*"):
            path.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_what_reads_works_on_a_store_that_can_only_be_read(asking: Asking, words: Asked) -> None:
    done = asking.done["read-only", words]
    assert (done.code, "cannot be read" in done.err) == (0, False), done


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_what_writes_is_refused_in_one_line(asking: Asking, words: Asked) -> None:
    done = asking.done["read-only", words]
    why = "it belongs to root, and you are nobody" if os.getuid() == 0 else "its folder is read-only (mode 555)"
    line = f"rolltrace: the store '{asking.stores['read-only']}' can only be read: {why}\n"
    assert done == (1, "", line)


@pytest.mark.parametrize("words", READING_THE_JOURNAL, ids=" ".join)
def test_a_journal_that_may_not_be_read_is_told_by_every_command(asking: Asking, words: Asked) -> None:
    done = asking.done["journal", words]
    (told,) = [line for line in done.err.splitlines() if "the journal file" in line]
    assert told.startswith("rolltrace: ")
    assert "what waits there to be drained cannot be shown" in told


def test_journals_in_a_folder_that_may_not_be_listed_are_told(asking: Asking) -> None:
    (host,) = (asking.stores["journals"] / "journal").iterdir()
    ls, stats, status = (
        asking.done["journals", words] for words in (("ls",), ("stats",), ("store", "journal", "status"))
    )
    assert "undrained" not in ls.out
    assert ls.err.startswith(f"rolltrace: the folder journal/{host.name} cannot be read (Permission denied")
    assert "; 1 cannot be read\n" in stats.out
    assert status.err.startswith(f"rolltrace: {host} is not shown: Permission denied")


def test_files_in_a_folder_that_may_not_be_entered_are_told(asking: Asking) -> None:
    ls, doctor = asking.done["step", ("ls", "--steps")], asking.done["step", ("doctor",)]
    assert re.match(r"rolltrace: the data file step-2/batch-\S+ cannot be read \(Permission denied", ls.err)
    assert f"{asking.stores['step'] / STEP}" in doctor.out


def test_doctor_names_a_store_of_somebody_else_and_does_not_advise_to_take_it(asking: Asking) -> None:
    out = asking.done["read-only", ("doctor",)].out
    assert "note     access       you can only read this store: " in out
    assert "chown" not in out
    advice = [line.strip() for line in out.splitlines() if "->" in line]
    assert advice
    assert all(line.startswith(("-> as root: ", "-> where the store can be written: ")) for line in advice)


def test_a_private_store_of_somebody_else_is_one_line(asking: Asking) -> None:
    store = asking.stores["private"]
    for words in (("ls",), ("stats",), ("export", "jsonl"), ("store", "drain", "--once"), ("doctor",)):
        done = asking.done["private", words]
        assert (done.code, done.out) == (1, "")
        assert re.fullmatch(rf"rolltrace: cannot read the store '{store}': no permission.*\n", done.err)
