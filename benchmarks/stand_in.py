"""Object storage to measure against: moto, over HTTP, as a process of its own on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import boto3

BUCKET = "bench"


@contextmanager
def object_storage() -> Iterator[str]:
    """The address of a lake there, and the environment of whoever uses it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(server, f"http://127.0.0.1:{port}/moto-api/")
        os.environ.update(
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
            AWS_ACCESS_KEY_ID="x",
            AWS_SECRET_ACCESS_KEY="x",
            AWS_REGION="us-east-1",
        )
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield f"s3://{BUCKET}/traces"
    finally:
        server.kill()
        server.wait()


def _wait_for(server: subprocess.Popen[bytes], url: str) -> None:
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            if server.poll() is not None:
                raise RuntimeError(f"moto ended with {server.returncode}; is moto[server] installed?") from None
            time.sleep(0.1)
