"""Which machine wrote what."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from rolltrace.files import host_name, host_of, host_tag, tag_of
from rolltrace.journal import JournalWriter, journal_folder

_PRINT = "from rolltrace.files import host_name; print(host_name())"


def _name_where(before: str) -> str:
    """What a process sees of its host after a command in namespaces of its own."""
    script = f"{before} && exec {sys.executable} -c '{_PRINT}'"
    return subprocess.run(
        ["unshare", "--uts", "--mount", "sh", "-c", script], check=True, capture_output=True, text=True
    ).stdout.strip()


def test_the_name_of_a_host_begins_with_what_it_calls_itself() -> None:
    assert _name_where("hostname node-7").startswith("node-7-")


def test_two_machines_of_one_name_are_two_hosts(tmp_path: Path) -> None:
    other = tmp_path / "machine-id"
    other.write_text("0123456789abcdef0123456789abcdef\n")
    here = _name_where("hostname node")
    there = _name_where(f"hostname node && mount --bind {other} /etc/machine-id")
    assert here != there
    assert there == "node-01234567"


def test_a_journal_carries_the_tag_of_its_host(tmp_path: Path) -> None:
    writer = JournalWriter(tmp_path, {})
    writer.append(b"\x90")
    (segment,) = journal_folder(tmp_path).glob("*.seg")
    writer.close()
    assert segment.parent.name == host_name()
    assert host_of(writer.writer_id) == host_of(segment.stem) == host_tag() == tag_of(host_name())


def test_names_without_a_tag_are_nobodys() -> None:
    assert host_of("20260101T000000-123-0a1b2c3d-000001") is None
    assert host_of("import-0123456789abcdef0123456789abcdef-0") is None
