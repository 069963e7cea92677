"""Real receivers as processes: MLflow's own endpoint and Phoenix."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[3]
PHOENIX = os.environ.get("PHOENIX_COMMAND") or str(ROOT / ".venvs/phoenix/bin/phoenix")
_UP_SEC = 240.0
_QUIET = {"DO_NOT_TRACK": "1", "MLFLOW_DISABLE_TELEMETRY": "true", "PHOENIX_TELEMETRY_ENABLED": "false"}


class Server:
    """A receiver, with the same data after each start."""

    def __init__(self, folder: Path, health: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._health = self.url + health
        self._process: subprocess.Popen[bytes] | None = None

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env={**os.environ, **_QUIET, "HOME": str(self.folder), **self.environment()},
                start_new_session=True,
            )
        until = time.monotonic() + _UP_SEC
        while True:
            try:
                urllib.request.urlopen(self._health, timeout=5).close()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise RuntimeError((self.folder / "server.log").read_text()[-4000:]) from None
                time.sleep(0.2)

    def kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


class Mlflow(Server):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "/health")

    def command(self) -> list[str]:
        store = ["--backend-store-uri", f"sqlite:///{self.folder}/ml.db", "--artifacts-destination", str(self.folder)]
        command = [str(Path(sys.executable).parent / "mlflow"), "server", "--host", "127.0.0.1"]
        return [*command, "--port", str(self.port), "--workers", "1", *store]

    def environment(self) -> dict[str, str]:
        return {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}


class Phoenix(Server):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "/healthz")
        self._grpc_port = _free_port()

    def command(self) -> list[str]:
        return [PHOENIX, "serve"]

    def environment(self) -> dict[str, str]:
        return {
            "PHOENIX_WORKING_DIR": str(self.folder),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(self.port),
            "PHOENIX_GRPC_PORT": str(self._grpc_port),
        }


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
