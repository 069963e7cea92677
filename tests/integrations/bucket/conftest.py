"""S3 as moto has it, over HTTP, with a proxy in front that can fail; and a home folder of each test's own."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.integrations.bucket.faults import Proxy

KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
BUCKET = "traces"
ROOT = Path(__file__).parents[3]
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
        client(port).create_bucket(Bucket=BUCKET)
        yield port
    finally:
        server.kill()
        server.wait()


def client(port: int) -> Any:
    return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{port}", region_name="us-east-1",
                        aws_access_key_id="test", aws_secret_access_key="test")  # fmt: skip


@pytest.fixture
def s3(moto: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Proxy]:
    """The environment of whoever uses the bucket. What `run` starts asks through a proxy that can fail; the test itself
    does not, since deltalake keeps Python's lock during some requests, and the proxy is in the same process."""
    proxy = Proxy(moto)
    server = f"http://127.0.0.1:{moto}"
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": server, "HOME": str(tmp_path / "home")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("ROLLTRACE_STORE_TIMEOUT", "20")
    yield proxy
    proxy.close()


@pytest.fixture
def address(s3: Proxy) -> str:
    """A store that nobody else uses."""
    return f"s3://{BUCKET}/{os.getpid()}/{next(_numbers)}"


@pytest.fixture
def objects(moto: int, address: str) -> Any:
    """Gives the names of the objects of the store, from its address."""

    def names() -> list[str]:
        prefix = address.removeprefix(f"s3://{BUCKET}/") + "/"
        pages = client(moto).get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return [each["Key"].removeprefix(prefix) for page in pages for each in page.get("Contents", ())]

    return names


def run(*words: object, check: bool = True, **environment: str) -> str:
    """What a command of rolltrace prints."""
    done = subprocess.run(
        [sys.executable, "-m", "rolltrace", *map(str, words)],
        capture_output=True, text=True, env={**os.environ, **environment}, cwd=ROOT,
    )  # fmt: skip
    if check:
        assert done.returncode == 0, done.stderr
    return done.stdout if check else done.stdout + done.stderr
