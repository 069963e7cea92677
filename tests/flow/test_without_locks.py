"""A store on a file system that cannot lock files: told at init, not found out by a store that stays empty."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace.journal import JournalWriter, read_journals
from rolltrace.record import NOTHING, Blob, encode_record

HERE = Path(__file__).parent
BEGIN = """
import sys
sys.path.insert(0, {here!r})
from without_locks import refuse_locks
if not refuse_locks(int(sys.argv[2])):
    sys.exit(77)
"""


def run(program: str, store: Path, number: int = errno.ENOLCK) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", BEGIN.format(here=str(HERE)) + program, str(store), str(number)]
    lenient = {name: value for name, value in os.environ.items() if name != "ROLLTRACE_STRICT"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=lenient)
    if done.returncode == 77:
        pytest.skip("no seccomp filter can be installed here")
    return done


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_init_says_what_is_wrong_and_what_to_do(tmp_path: Path, number: int) -> None:
    program = (
        "import rolltrace\n"
        "try: rolltrace.init('p', 'e', 'rolltrace', store=sys.argv[1], drain='off')\n"
        "except rolltrace.RolltraceError as error: print(type(error).__name__, error)\n"
    )
    done = run(program, tmp_path / "store", number)
    assert done.stdout.startswith("StoreError the file system of "), done.stderr
    assert str(tmp_path / "store") in done.stdout
    assert os.strerror(number) in done.stdout
    assert "init(store=...) or ROLLTRACE_STORE" in done.stdout
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()], "nothing is left behind"


def test_journals_can_be_read_where_files_cannot_be_locked(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    writer.append(encode_record(Blob("1", "test", NOTHING, b"x")))
    program = (
        "from pathlib import Path\n"
        "from rolltrace.journal import is_live, journal_files, read_journals\n"
        "print([(segment.state, item.record.hash) for segment, item in read_journals(sys.argv[1])])\n"
        "print([is_live(path) for path in journal_files(Path(sys.argv[1]))])\n"
    )
    done = run(program, tmp_path)
    assert done.stdout == "[('live', '1')]\n[True]\n", done.stderr
    writer.close()
    assert run(program, tmp_path).stdout.startswith("[('sealed', '1')]")
    assert len(list(read_journals(tmp_path))) == 1


def test_a_drainer_says_why_it_cannot_work(tmp_path: Path) -> None:
    JournalWriter(tmp_path, {}).append(encode_record(Blob("1", "test", NOTHING, b"x")))
    program = (
        "from pathlib import Path\n"
        "from rolltrace.errors import StoreError\n"
        "from rolltrace.journal import drainer_lock\n"
        "try:\n"
        "    with drainer_lock(Path(sys.argv[1])): pass\n"
        "except StoreError as error: print(error)\n"
    )
    assert "cannot lock files" in run(program, tmp_path).stdout
