"""S3 as moto has it, over HTTP, with a proxy in front that can fail; and stores to ship there."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

import rolltrace
from rolltrace.store import remove_replaced
from tests.integrations.lake.faults import Proxy

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
BUCKET = "traces"
LABELLED = "sample_index = 3 and rollout_n = 1"
_numbers = itertools.count()


def pytest_configure(config: pytest.Config) -> None:
    for kind in ("DeprecationWarning", "ResourceWarning"):  # of what is imported
        config.addinivalue_line("filterwarnings", f"ignore::{kind}")


@pytest.fixture(scope="session")
def moto() -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/moto-api/", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                assert server.poll() is None
                time.sleep(0.1)
        _client(port).create_bucket(Bucket=BUCKET)
        yield port
    finally:
        server.kill()
        server.wait()


def _client(port: int) -> Any:
    return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                        aws_access_key_id="test", aws_secret_access_key="test")  # fmt: skip


@pytest.fixture
def s3(moto: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Proxy]:
    """The environment of whoever uses the lake, through a proxy that can fail."""
    proxy = Proxy(moto)
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": proxy.url}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ROLLTRACE_LAKE_TIMEOUT", "2")
    yield proxy
    proxy.close()


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROLLTRACE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ROLLTRACE_STRICT", "")


@pytest.fixture
def lake() -> str:
    """An address that nobody else uses."""
    return f"s3://{BUCKET}/{os.getpid()}/{next(_numbers)}"


@pytest.fixture(scope="session")
def _shipped_once(moto: int, recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The prefix of a lake that has all of the recorded store."""
    store = tmp_path_factory.mktemp("shipped") / "store"
    subprocess.run(["cp", "-r", str(recorded), str(store)], check=True)
    prefix = f"{os.getpid()}/shipped"
    cli("ship", store, "--to", f"s3://{BUCKET}/{prefix}", **KEYS, AWS_ENDPOINT_URL=f"http://127.0.0.1:{moto}")
    return prefix


@pytest.fixture
def shipped(_shipped_once: str, moto: int, recorded: Path, s3: Proxy, lake: str) -> Path:
    """The recorded store, all of which is in the lake."""
    client, own = _client(moto), lake.removeprefix(f"s3://{BUCKET}/")
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=f"{_shipped_once}/"):
        for each in page["Contents"]:
            source = {"Bucket": BUCKET, "Key": each["Key"]}
            client.copy_object(Bucket=BUCKET, CopySource=source, Key=own + each["Key"].removeprefix(_shipped_once))
    return recorded


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of some steps of two experiments, with late scores, a label and a pruned group. Not to be changed."""
    store = tmp_path_factory.mktemp("recorded") / "store"
    record(store, "first", steps=4, samples=6)
    record(store, "second/with a name", steps=2, samples=4)
    with rolltrace.open(store) as opened:
        (labelled,) = opened.trajectories(experiment="first", step=2, where=LABELLED).rows()
        opened.label(labelled["trajectory_id"], "good", author="ann")
    cli("drain", store)
    cli("prune", store, "--where", "step = 1 and reward < 0.3", "--yes")
    remove_replaced(store, grace_sec=0.0)  # nobody is to do it while the store is copied
    return store


def record(store: Path, experiment: str, *, steps: int, samples: int, first: int = 0) -> None:
    """Rollouts in a process of their own, left in its journal."""
    numbers = [str(each) for each in (first, steps, samples)]
    subprocess.run([sys.executable, "-m", "tests.integrations.lake.node", str(store), experiment, *numbers], check=True)


def cli(*words: object, check: bool = True, **environment: str) -> str:
    """What a command prints."""
    done = subprocess.run(
        [sys.executable, "-m", "rolltrace", *map(str, words)],
        capture_output=True, text=True, env={**os.environ, **environment},
    )  # fmt: skip
    if check:
        assert done.returncode == 0, done.stderr
    return done.stdout if check else done.stdout + done.stderr


@pytest.fixture
def copy_of(recorded: Path, tmp_path: Path) -> Callable[[str], Path]:
    """The recorded store, to be changed."""

    def copied(name: str = "store") -> Path:
        subprocess.run(["cp", "-r", str(recorded), str(tmp_path / name)], check=True)
        return tmp_path / name

    return copied
