from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from rolltrace.errors import ConfigError, StoreError
from rolltrace.lake import LakeAddress


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("s3://bucket/prefix/", "s3://bucket/prefix"),
        ("gs://bucket", "gs://bucket"),
        ("file:///shared/lake", "/shared/lake"),
        ("/shared/lake/", "/shared/lake"),
    ],
)
def test_an_address_is_understood(address: str, url: str) -> None:
    assert LakeAddress.of(address).url == url


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("", "is empty"),
        ("ftp://host/lake", "a lake is at s3://"),
        ("s3:///prefix", "names no bucket"),
        ("s3://me:secret@bucket/x", "no user, password or query"),
        ("s3://bucket/x?key=secret", "no user, password or query"),
    ],
)
def test_what_is_no_address_is_refused_without_repeating_a_secret(address: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        LakeAddress.of(address)
    assert "secret" not in str(refused.value)


def test_files_about_two_lakes_have_two_names() -> None:
    assert LakeAddress.of("s3://bucket/a-b").name != LakeAddress.of("s3://bucket/a/b").name


def test_rollouts_are_not_recorded_into_an_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"must be a folder, not 's3://bucket/x'.*ROLLTRACE_LAKE"):
        rolltrace.init("p", "e", store="s3://bucket/x")


def test_a_folder_that_does_not_exist_is_no_lake(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="there is no store"):
        rolltrace.open(tmp_path / "nowhere")


def test_without_the_extra_the_error_says_what_to_install() -> None:
    hidden = "import sys; sys.modules['deltalake'] = None; import rolltrace; rolltrace.open('s3://bucket/x')"
    done = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True)
    assert "pip install 'rolltrace[lake]'" in done.stderr
