"""Vendors' servers as processes on this machine, each on a port of its own, to be killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TypeVar

QUIET = {
    "DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "PHOENIX_TELEMETRY_ENABLED": "false",
}
_UP_SEC = 240.0
_Self = TypeVar("_Self", bound="Server")


class Server:
    """It runs inside `with`, and after each start has the same data: that of its folder."""

    health = "/health"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def __enter__(self: _Self) -> _Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it, again if need be, and wait until it answers."""
        self.kill()
        log_path = self.folder / "server.log"
        with log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **QUIET, "HOME": str(self.folder), **self.environment()},
                start_new_session=True,
            )
        until = time.monotonic() + _UP_SEC
        while True:
            try:
                urllib.request.urlopen(self.url + self.health, timeout=5).close()
                return
            except OSError:
                if self.is_dead() or time.monotonic() > until:
                    self.kill()
                    raise RuntimeError(f"the server did not start: {log_path.read_text()[-4000:]}") from None
                time.sleep(0.2)

    def is_dead(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def kill(self) -> None:
        """Kill it and all that it has started."""
        if self._process is not None:
            try:
                os.killpg(self._process.pid, signal.SIGKILL)
            except ProcessLookupError:  # it has died by itself
                pass
            self._process.wait()
            self._process = None


class MlflowServer(Server):
    """`mlflow server`, with its data in SQLite."""

    def command(self) -> list[str]:
        store = ["--backend-store-uri", f"sqlite:///{self.folder}/mlflow.db"]
        artifacts = ["--artifacts-destination", str(self.folder / "artifacts")]
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--workers", "1"]
        return [sys.executable, "-m", "mlflow", "server", *place, *store, *artifacts]


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
