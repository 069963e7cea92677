from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace._address import StoreAddress, address_in, home_folder
from rolltrace.errors import ConfigError
from rolltrace.settings import Settings


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_folder_is_its_own_home(tmp_path: Path) -> None:
    assert home_folder(tmp_path / "store") == tmp_path / "store"
    assert home_folder("~/store") == tmp_path / "store"
    assert home_folder(f"file://{tmp_path}/store") == tmp_path / "store"
    assert address_in(tmp_path / "store") == StoreAddress(str(tmp_path / "store"))
    assert not (tmp_path / "store").exists()


def test_a_bucket_has_a_private_local_folder(home: Path) -> None:
    folder = home_folder("s3://bucket/prefix/")
    assert folder.parent == home / ".rolltrace-remote"
    assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    assert address_in(folder) == StoreAddress("s3://bucket/prefix")
    assert home_folder("s3://bucket/prefix") == folder
    assert home_folder("s3://bucket/pre-fix") != folder  # though it reads the same
    assert not (home / ".rolltrace").exists()


def test_the_setting_takes_an_address() -> None:
    assert Settings.gather({"store": "s3://bucket/prefix"}).store == home_folder("s3://bucket/prefix")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("", "is empty"),
        ("http://bucket/prefix", "a store is a folder or at s3://"),
        ("s3://", "names no bucket"),
        ("s3://key:secret@bucket/prefix", "no user, password or query"),
        ("s3://bucket/prefix?token=x", "no user, password or query"),
    ],
)
def test_an_address_that_cannot_be_meant_is_refused(address: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as refused:
        home_folder(address)
    assert "secret" not in str(refused.value)


def test_a_store_that_somebody_sends_leads_nowhere_else(tmp_path: Path) -> None:
    """A folder with such a file must not make us send what we record to a bucket that we did not name."""
    (tmp_path / "address.json").write_text(json.dumps({"url": "s3://theirs/prefix"}))
    assert address_in(tmp_path).folder == tmp_path


def test_a_damaged_file_leaves_a_folder(home: Path) -> None:
    folder = home_folder("s3://bucket/prefix")
    (folder / "address.json").write_text("{")
    assert address_in(folder).folder == folder


def test_recording_for_a_bucket_loads_no_column_library_and_asks_nobody(home: Path) -> None:
    program = """
import sys
import rolltrace
rolltrace.init("p", "e", "rolltrace", store="s3://nowhere/prefix", drain="off", limits={"pass_threshold": 0.5})
with rolltrace.rollout_trace_attr("sample", step=1) as trajectory:
    trajectory.reward(1.0)
rolltrace.shutdown()
print(sorted({"deltalake", "pyarrow", "duckdb", "numpy"} & set(sys.modules)), rolltrace.stats().losses)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] {}"
    assert list(home_folder("s3://nowhere/prefix").glob("journal/*/*.seg"))
