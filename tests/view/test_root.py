"""The viewer below any prefix: relative addresses, `--root-path`, cookies that are for the viewer alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest

from rolltrace.errors import ConfigError
from rolltrace.view import checked_root_path

TOKEN = "a-token-of-some-length"
Serve = Callable[..., httpx.Client]
PAGES = ("/", "/live", "/t/abcd", "/e/maths/grpo-7b/step/3/sample/a%252Fb", "/e/a%2Fb/c", "/search?q=/a/b/c")


@pytest.mark.parametrize("prefix", ["", "/user/me/proxy/7655", "/proxy/7655", "/a/b%2Fc"])
def test_a_page_finds_its_files_wherever_a_proxy_puts_it(client: httpx.Client, prefix: str) -> None:
    for path in PAGES:
        page = client.get(path).text  # the proxy has taken its prefix off
        names = re.findall(r'(?:src|href|data-root)="([^"]*)"', page)
        assert len(names) > 5
        for name in names:
            address = urljoin(f"http://hub.example{prefix}{path}", name)
            assert address.startswith(f"http://hub.example{prefix}/"), (path, name)
            own = address.removeprefix(f"http://hub.example{prefix}")
            assert client.get(own).status_code == 200
            assert own == "/" or "text/html" not in client.get(own).headers["content-type"]


def test_with_a_root_path_both_forms_of_an_address_are_answered(demo_store: Path, serve: Serve) -> None:
    client = serve(demo_store, root_path="/tools/rolltrace")
    for prefix in ("", "/tools/rolltrace"):
        assert client.get(f"{prefix}/api/status").json()["store_name"]
        assert client.get(f"{prefix}/api/nothing").status_code == 404
        assert 'data-root="../"' in client.get(f"{prefix}/t/abcd").text
    assert client.get("/tools/rolltrace?a=b").headers["location"] == "/tools/rolltrace/?a=b"
    assert client.get("/tools/rolltracer/api/status").headers["content-type"].startswith("text/html")


def test_below_a_prefix_the_guard_is_the_same(demo_store: Path, serve: Serve) -> None:
    client = serve(demo_store, root_path="/r", token=TOKEN)
    assert client.get("/r/api/status").status_code == 401
    assert client.get("/r/api/status", headers={"Host": "evil.example"}).status_code == 421
    answer = client.get("/r/t/abcd", params={"token": TOKEN}, follow_redirects=True)
    assert (answer.status_code, answer.url.path) == (200, "/r/t/abcd")
    (cookie,) = client.cookies.jar
    assert cookie.path == "/r"  # not sent to what else the proxy has


@pytest.mark.parametrize(("text", "path"), [("", ""), ("/", ""), ("a", "/a"), ("/a/b/", "/a/b")])
def test_a_root_path_has_one_form(text: str, path: str) -> None:
    assert checked_root_path(text) == path


@pytest.mark.parametrize("text", ["/a/../b", "/a?b", "/a#b", "/a b", '/"><script>', "/é", "/%2e", "\\a", "/a//b"])
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="--root-path is a path"):
        checked_root_path(text)
