"""A store is its owner's alone, unless it is shared with a group: then everything in it is, whoever makes it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.errors import ConfigError
from rolltrace.exchange.import_chat import reader
from rolltrace.exchange.importer import ImportTarget, import_files
from rolltrace.files import file_mode, make_folder, make_store, open_file
from rolltrace.keeper import run_once
from rolltrace.keeper.outbox import Outbox, State
from rolltrace.keeper.position import SENT, Entry


@pytest.fixture(autouse=True, params=[0o022, 0o077, 0o000], ids=oct)
def _umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def modes(store: Path) -> tuple[set[int], set[int]]:
    """Of all folders, and of all files."""
    paths = [store, *store.rglob("*")]
    return {mode(path) for path in paths if path.is_dir()}, {mode(path) for path in paths if path.is_file()}


def fill(store: Path, **settings: str) -> None:
    """Everything that is ever made in a store, but for what its background processes log."""
    rolltrace.init("p", "e", ["rolltrace", "otlp"], store=store, drain="off", **settings)
    with rolltrace.rollout_trace_attr(1, step=1):
        rolltrace.rollout_trace_op(lambda picture: picture)(picture())
    rolltrace.flush()
    journals = modes(store)
    assert journals[1], "there are journals"
    rolltrace.shutdown()
    assert run_once(store) == 0
    outbox = Outbox(store, "otlp")
    with outbox.sending():
        outbox.position.add([Entry(SENT, "0" * 32, 1)])
        outbox.state = State(sent=1)
    assert modes(store)[0] >= journals[0]


def picture() -> object:
    from PIL import Image

    return Image.new("RGB", (4, 4))


def test_a_new_store_is_its_owners_alone(tmp_path: Path) -> None:
    store = tmp_path / "runs" / "store"
    fill(store)
    assert modes(store) == ({0o700}, {0o600})
    usual = tmp_path / "usual"
    usual.mkdir()
    assert mode(tmp_path / "runs") == mode(usual)


def test_all_of_a_shared_store_is_the_groups_too(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store, share="group")
    assert modes(store) == ({0o2770}, {0o660})


def test_the_folder_remembers_that_it_is_shared(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "group")
    fill(tmp_path / "store")
    assert modes(tmp_path / "store") == ({0o2770}, {0o660})


def test_the_environment_can_ask_for_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROLLTRACE_SHARE", "group")
    file = tmp_path / "chat.jsonl"
    file.write_text('{"messages": [{"role": "assistant", "content": "a"}], "project": "p", "experiment": "e"}\n')
    import_files(reader, [file], ImportTarget(tmp_path / "store"))
    assert modes(tmp_path / "store") == ({0o2770}, {0o660})


def test_an_imported_store_is_private(tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text('{"messages": [{"role": "assistant", "content": "a"}], "project": "p", "experiment": "e"}\n')
    import_files(reader, [file], ImportTarget(tmp_path / "store"))
    assert modes(tmp_path / "store") == ({0o700}, {0o600})


def test_a_private_store_can_be_shared_later(tmp_path: Path) -> None:
    store = tmp_path / "store"
    fill(store)
    fill(store, share="group")
    assert modes(store) == ({0o2770}, {0o660})


def test_a_folder_that_was_there_stays_as_it_is_and_doctor_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "store"
    store.mkdir()
    store.chmod(0o755)
    fill(store)
    assert mode(store) == 0o755
    assert {mode(path) for path in store.rglob("*")} == {0o700, 0o600}
    main(["doctor", str(store)])
    out = capsys.readouterr().out
    assert "users other than its owner can access the store (mode 755)" in out
    assert f"chmod 700 {store}" in out


def test_doctor_finds_nothing_wrong_with_a_shared_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path / "store", share="group")
    main(["doctor", str(tmp_path / "store")])
    assert "journals are the group's" in capsys.readouterr().out


def test_a_file_has_its_mode_from_the_moment_it_is_there(tmp_path: Path) -> None:
    make_store(tmp_path / "store", "group")
    os.close(open_file(tmp_path / "store" / "a", os.O_WRONLY | os.O_CREAT))
    os.close(open_file(tmp_path / "store" / "a", os.O_WRONLY | os.O_CREAT))
    assert mode(tmp_path / "store" / "a") == file_mode(tmp_path / "store") == 0o660
    with pytest.raises(FileExistsError):
        open_file(tmp_path / "store" / "a", os.O_WRONLY | os.O_CREAT | os.O_EXCL)


def test_many_that_make_the_same_folders_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    def make(number: int) -> None:
        make_store(tmp_path / "store", "group")
        make_folder(tmp_path / "store" / "journal" / "host")
        (tmp_path / "store" / "journal" / "host" / str(number)).touch()

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(make, range(64)))
    assert modes(tmp_path / "store")[0] == {0o2770}
    assert len(list((tmp_path / "store" / "journal" / "host").iterdir())) == 64
    assert not list(tmp_path.rglob("*.new"))


def test_a_way_to_share_that_there_is_not_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="share must be one of 'private', 'group', not 'world'"):
        rolltrace.init("p", "e", "rolltrace", store=tmp_path / "store", share="world")
    monkeypatch.setenv("ROLLTRACE_SHARE", "world")
    with pytest.raises(ConfigError, match="ROLLTRACE_SHARE must be one of 'private', 'group', not 'world'"):
        make_store(tmp_path / "store")
