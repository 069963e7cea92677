from __future__ import annotations

from pathlib import Path

import pytest

from rolltrace.errors import StoreError
from rolltrace.pass_rule import PassRule
from rolltrace.tables import (
    LiveSnapshot,
    LiveWriter,
    StoreAddress,
    forget_pass_rule,
    publish_pass_rules,
    read_live,
    read_pass_rules,
    remove_live,
    write_live,
    write_pass_rule,
)
from rolltrace.tables.storage import read_shared, remove_shared, write_shared


def test_a_shared_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    address = StoreAddress(str(tmp_path))
    assert read_shared(address, "live") == {}
    for content in (b"first", b"second"):
        write_shared(address, "live/host.json", content)
    assert read_shared(address, "live") == {"host.json": b"second"}
    assert [path.name for path in (tmp_path / "live").iterdir()] == ["host.json"]
    for _ in range(2):
        remove_shared(address, "live/host.json")
    assert read_shared(address, "live") == {}


def test_a_link_out_of_the_store_is_not_followed(tmp_path: Path) -> None:
    store, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    store.mkdir()
    elsewhere.mkdir()
    (elsewhere / "host.json").write_text("theirs")
    (store / "live").symlink_to(elsewhere)
    with pytest.raises(StoreError, match="outside the store"):
        write_shared(StoreAddress(str(store)), "live/host.json", b"ours")
    with pytest.raises(StoreError, match="outside the store"):
        remove_shared(StoreAddress(str(store)), "live/host.json")
    assert (elsewhere / "host.json").read_text() == "theirs"


def test_snapshots_of_all_hosts_are_read_and_odd_files_left_out(tmp_path: Path) -> None:
    snapshots = [LiveSnapshot(host, 1, [LiveWriter("w", "p", "e")]) for host in ("a", "b")]
    for snapshot in snapshots:
        write_live(tmp_path, snapshot)
    (tmp_path / "live" / "c.json").write_text("{")
    assert read_live(tmp_path) == snapshots
    remove_live(tmp_path, "a")
    assert read_live(tmp_path) == snapshots[1:]


def test_what_pass_means_is_written_and_forgotten(tmp_path: Path) -> None:
    rule = PassRule.of("correct", 0.5)
    write_pass_rule(tmp_path, "p", "e", rule)
    publish_pass_rules(tmp_path)  # of a folder, there is nothing to take anywhere
    assert read_pass_rules(tmp_path) == {("p", "e"): rule}
    forget_pass_rule(tmp_path, "p", "e")
    assert read_pass_rules(tmp_path) == {}
