"""Phoenix as a process, from an environment of its own."""

from __future__ import annotations

import os
from pathlib import Path

from tests.integrations.servers import Server, free_port

ROOT = Path(__file__).parents[3]
PHOENIX = os.environ.get("PHOENIX_COMMAND") or str(ROOT / ".venvs/phoenix/bin/phoenix")


class PhoenixServer(Server):
    health = "/healthz"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._grpc_port = free_port()

    def command(self) -> list[str]:
        return [PHOENIX, "serve"]

    def environment(self) -> dict[str, str]:
        return {
            "PHOENIX_WORKING_DIR": str(self.folder),
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(self.port),
            "PHOENIX_GRPC_PORT": str(self._grpc_port),
        }
