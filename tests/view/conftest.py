"""The viewer's server on a real port, with real stores."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from rolltrace.view import Writing, access_for, listen, server_of
from tests.view.fixtures import demo, demo_store  # noqa: F401 - fixtures, with their own file

Ask = Callable[..., Any]


@contextmanager
def serving(
    store: Path | list[Path],
    *,
    host: str = "127.0.0.1",
    token: str | None = None,
    writing: Writing | None = None,
    allow_hosts: Iterable[str] = (),
    root_path: str = "",
) -> Iterator[httpx.Client]:
    """A server of a store, and a client of it."""
    listening = listen(host, 0)
    server = server_of(store, access_for(host, listening.port, token, allow_hosts), writing, root_path=root_path)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening.socket]})
    thread.start()
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{listening.port}", timeout=60, verify=False) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def client(demo_store: Path) -> Iterator[httpx.Client]:  # noqa: F811 - the fixture
    """A client of a server of the demo store."""
    with serving(demo_store) as made:
        yield made


@pytest.fixture
def ask(client: httpx.Client) -> Ask:
    """Call it with a path and arguments: the answer, which must be one."""

    def get(endpoint: str, **arguments: Any) -> Any:
        answer = client.get(f"/api/{endpoint}", params=arguments)
        assert answer.status_code == 200, answer.text
        return answer.json()

    return get


@pytest.fixture
def serve() -> Iterator[Callable[..., httpx.Client]]:
    """Call it with a store: a client of a server of its own."""
    with ExitStack() as running:
        yield lambda store, **how: running.enter_context(serving(store, **how))
