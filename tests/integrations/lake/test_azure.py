"""A lake in Azure's blob storage, as Microsoft's own emulator has it."""

from __future__ import annotations

import base64
import email.utils
import hashlib
import hmac
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.integrations.lake.answers import assert_same
from tests.integrations.lake.conftest import cli

ROOT = Path(__file__).parents[3]
AZURITE = ROOT / ".venvs" / "azurite" / "node_modules" / ".bin" / "azurite-blob"
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Of every emulator, and no secret."""
VERSION = "2021-08-06"
Copy = Callable[..., Path]


@pytest.fixture(scope="module")
def azurite() -> Iterator[str]:
    assert AZURITE.exists(), "run: make environment-azurite"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [
        str(AZURITE),
        "--inMemoryPersistence",
        "--disableTelemetry",
        "--skipApiVersionCheck",
        "--blobPort",
        str(port),
    ]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                break
            except OSError:
                assert server.poll() is None
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def make_container(address: str, name: str) -> None:
    """By a request that is signed by hand: for this alone, no package of Azure's is needed."""
    stamp = {"x-ms-date": email.utils.formatdate(usegmt=True), "x-ms-version": VERSION}
    stamps = "".join(f"{header}:{value}\n" for header, value in stamp.items())
    text = "PUT" + "\n" * 12 + f"{stamps}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    signature = base64.b64encode(hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()).decode()
    headers = {**stamp, "Authorization": f"SharedKey {ACCOUNT}:{signature}", "Content-Length": "0"}
    url = f"{address}/{ACCOUNT}/{name}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, method="PUT", headers=headers), timeout=30).close()


@pytest.fixture
def container(azurite: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """An address in a container of its own, and the environment of whoever uses it."""
    variables = {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURITE_BLOB_STORAGE_URL": azurite,
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    name = hashlib.sha256(str(tmp_path).encode()).hexdigest()[:20]
    make_container(azurite, name)
    return f"az://{name}/traces"


def test_a_lake_in_azure_answers_as_the_store_does_also_when_merged(copy_of: Copy, container: str) -> None:
    store = copy_of()
    cli("ship", store, "--to", container)
    assert_same(store, container)
    cli("lake", "compact", container, "--all")
    cli("lake", "vacuum", container, "--older-than", "0s", "--force")
    assert_same(store, container)
    assert "nothing was left to ship" in cli("ship", store, "--to", container)


def test_copies_of_a_store_that_are_shipped_to_azure_at_once_add_nothing_twice(copy_of: Copy, container: str) -> None:
    stores = [copy_of(f"copy{number}") for number in range(3)]
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda store: cli("ship", store, "--to", container), stores))
    assert_same(stores[0], container)


def test_a_container_that_does_not_exist_is_told(copy_of: Copy, container: str) -> None:
    missing = container.replace("az://", "az://no")
    assert "there is no such bucket" in cli("ship", copy_of(), "--to", missing, check=False)
