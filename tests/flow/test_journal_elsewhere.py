"""Journals on a local disk, the store on another: nothing is lost, and whoever needs them finds them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.errors import StoreError
from rolltrace.journal import journal_files, journal_folder
from tests.flow.host import can_be_hosts, command
from tests.flow.without_locks_in import environment

ROOT = Path(__file__).parents[2]
RECORD = """
import os, sys
import rolltrace
store, first, count, end = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
rolltrace.init("p", "e", "rolltrace", store=store, drain="off")

@rolltrace.rollout_trace_op(kind="llm")
def turn(number):
    return {"number": number}

for number in range(first, first + count):
    with rolltrace.rollout_trace_attr(step=1, sample_index=number):
        turn(number)
if end == "killed":
    print("recorded", flush=True)
    sys.stdin.read()
rolltrace.shutdown()
"""


def samples(store: Path) -> list[int]:
    return sorted(row["sample_index"] for row in rolltrace.open(store).trajectories().rows())


def record(
    store: Path, first: int, count: int, journals: Path | None, end: str = "shutdown", host: str | None = None
) -> None:
    """Record as a program does that knows of ROLLTRACE_JOURNAL, or does not."""
    program = ["-c", RECORD, str(store), str(first), str(count), end]
    more = {} if journals is None else {"ROLLTRACE_JOURNAL": str(journals)}
    process = subprocess.Popen(
        [sys.executable, *program] if host is None else command(host, *program),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **more},
    )
    if end == "killed":
        assert process.stdout is not None
        process.stdout.readline()
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    else:
        process.communicate()
        assert process.returncode == 0


def test_what_a_killed_program_left_elsewhere_is_read_and_drained(tmp_path: Path) -> None:
    store, journals = tmp_path / "shared", tmp_path / "nvme"
    record(store, 0, 3, journals, end="killed")
    assert not list((store / "journal").rglob("*.seg"))
    assert len(list(journals.glob("shared-*/*.seg"))) == 1
    assert samples(store) == [0, 1, 2], "who reads on this host sees what is not drained"
    assert main(["store", "drain", "--once", str(store)]) == 0
    assert not list(journals.rglob("*.seg"))
    assert samples(store) == [0, 1, 2]
    assert main(["doctor", str(store)]) == 0


def test_the_store_remembers_where_the_journals_are(tmp_path: Path) -> None:
    store, journals = tmp_path / "shared", tmp_path / "nvme"
    record(store, 0, 1, journals)
    record(store, 1, 1, None)
    assert len(list(journals.glob("shared-*/*.seg"))) == 2
    rolltrace.open(store).score(rolltrace.open(store).trajectories().rows()[0]["trajectory_id"], "human", 1.0)
    main(["store", "drain", "--once", str(store)])
    assert samples(store) == [0, 1]
    assert [row["value"] for row in rolltrace.open(store).sql("SELECT value FROM scores").rows()] == [1.0]


def test_stores_with_the_same_folder_for_journals_do_not_mix(tmp_path: Path) -> None:
    journals = tmp_path / "nvme"
    stores = [tmp_path / "one" / "store", tmp_path / "two" / "store"]
    for number, store in enumerate(stores):
        record(store, 10 * number, 2, journals)
    main(["store", "drain", "--once", str(stores[0])])
    assert [len(journal_files(store)) for store in stores] == [0, 1]
    assert [samples(store) for store in stores] == [[0, 1], [10, 11]]


def test_the_place_is_changed_only_when_all_is_drained(tmp_path: Path) -> None:
    store, first, second = tmp_path / "shared", tmp_path / "nvme0", tmp_path / "nvme1"
    record(store, 0, 1, first)
    with pytest.raises(StoreError, match=r"not all drained; drain them first: rolltrace store drain --once"):
        rolltrace.init("p", "e", "rolltrace", store=store, drain="off", limits={"journal": second})
    main(["store", "drain", "--once", str(store)])
    record(store, 1, 1, second)
    assert journal_folder(store).parent == second
    assert samples(store) == [0, 1]


def test_journals_that_are_in_the_store_are_drained_before_they_go_elsewhere(tmp_path: Path) -> None:
    store = tmp_path / "shared"
    record(store, 0, 1, None)
    with pytest.raises(StoreError, match="not all drained"):
        rolltrace.init("p", "e", "rolltrace", store=store, drain="off", limits={"journal": tmp_path / "nvme"})


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot keep journals in .*ROLLTRACE_JOURNAL"):
        rolltrace.init(
            "p", "e", "rolltrace", store=tmp_path / "store", drain="off", limits={"journal": tmp_path / "file" / "x"}
        )


def test_a_store_that_somebody_made_up_leads_nowhere(tmp_path: Path) -> None:
    store, victim = tmp_path / "store", tmp_path / "victim"
    record(store, 0, 1, tmp_path / "nvme")
    victim.mkdir()
    (victim / "store.json").write_text(json.dumps({"store": "x", "host": "y", "key": "of somebody else"}))
    (page,) = (store / "journal").glob("*/place.json")
    page.write_text(json.dumps({"folder": str(victim), "key": "12345678"}))
    assert journal_folder(store).parent == store / "journal"
    main(["store", "drain", "--once", str(store)])
    assert [path.name for path in victim.iterdir()] == ["store.json"]


@pytest.mark.parametrize("drain", ["process", "thread"])
def test_a_store_whose_file_system_has_no_locks(tmp_path: Path, drain: str) -> None:
    store, journals = tmp_path / "shared", tmp_path / "nvme"
    variables = environment(store, tmp_path / "site")
    program = RECORD.replace('drain="off"', f'drain="{drain}"').replace("rolltrace.shutdown", "rolltrace.flush")
    arguments = [sys.executable, "-c", program, str(store), "0", "3", "flushed"]
    refused = subprocess.run(arguments, env=variables, capture_output=True, text=True)
    assert "ROLLTRACE_JOURNAL" in refused.stderr
    done = subprocess.run(
        arguments, env={**variables, "ROLLTRACE_JOURNAL": str(journals)}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    commands = (
        "import sys\nfrom rolltrace.cli import main\n"
        "for words in (['store', 'drain', '--once'], ['doctor'], ['stats']):\n"
        "    assert main([*words, sys.argv[1]]) == 0, words\n"
    )
    told = subprocess.run([sys.executable, "-c", commands, str(store)], env=variables, capture_output=True, text=True)
    assert told.returncode == 0, told.stdout + told.stderr
    assert samples(store) == [0, 1, 2]


@pytest.mark.skipif(not can_be_hosts(), reason="no namespaces can be made here")
class TestOtherHosts:
    def test_are_told_of_journals_that_they_cannot_see(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        store, journals = tmp_path / "shared", tmp_path / "nvme"
        record(store, 0, 2, journals, end="killed", host="alpha")
        record(store, 2, 1, None)
        assert samples(store) == [2], "those of the other host are on its own disk"
        main(["doctor", str(store)])
        told = capsys.readouterr().out
        assert "of another host on a disk of its own, not drained" in told
        assert "on alpha-" in told
        main(["stats", str(store), "--json"])
        (elsewhere,) = json.loads(capsys.readouterr().out)["undrained_elsewhere"]
        assert elsewhere["host"].startswith("alpha-")
        assert elsewhere["folder"].startswith(str(journals))
        drained = subprocess.run(
            command("alpha", "-m", "rolltrace", "store", "drain", "--once", str(store)), cwd=ROOT, capture_output=True
        )
        assert drained.returncode == 0
        main(["doctor", str(store)])
        assert "of another host on a disk" not in capsys.readouterr().out
        assert samples(store) == [0, 1, 2]
