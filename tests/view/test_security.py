"""Who is answered, and what no request can reach."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from rolltrace.view import access_for, is_loopback

TOKEN = "a-token-of-some-length"
Serve = Callable[..., httpx.Client]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7655", "127.0.0.1.evil.example", "", "10.0.0.7", "[::2]"]
)
def test_on_loopback_another_host_name_is_refused(client: httpx.Client, host: str) -> None:
    answer = client.get("/api/status", headers={"Host": host})
    assert answer.status_code in (400, 421)  # the web server itself refuses none at all


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9", "127.0.0.1:80", "[::1]:7655"])
def test_loopback_names_with_any_port_are_answered(client: httpx.Client, host: str) -> None:
    assert client.get("/api/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:1", "file://"])
def test_another_origin_is_refused(client: httpx.Client, origin: str) -> None:
    answer = client.get("/api/status", headers={"Origin": origin})
    assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")


def test_the_own_origin_is_answered(client: httpx.Client) -> None:
    origin = str(client.base_url).rstrip("/")
    assert client.get("/api/status", headers={"Origin": origin}).status_code == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_what_a_page_of_another_site_loads_is_refused_but_a_link_works(client: httpx.Client, site: str) -> None:
    loaded = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}
    followed = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
    assert client.get("/api/status", headers=loaded).status_code == 403
    assert client.get("/", headers=followed).status_code == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_can_be_changed(client: httpx.Client, method: str) -> None:
    assert client.request(method, "/api/status").status_code == 405


def test_no_answer_lets_inline_script_run_or_be_framed(client: httpx.Client) -> None:
    for path in ("/", "/api/status", "/api/nothing", "/t/abcd"):
        headers = client.get(path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert policy["connect-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd", "/..%2f..%2f..%2fetc/passwd", "/assets/../api.py", "/assets/%2e%2e/api.py",
        "/static/index.html", "/api.py", "/%00", "//etc/passwd", "/assets/..%5c..%5cwire.py",
    ],
)  # fmt: skip
def test_no_path_reaches_the_file_system(client: httpx.Client, path: str) -> None:
    answer = client.send(httpx.Request("GET", str(client.base_url).rstrip("/") + path))
    assert b"root:" not in answer.content
    assert b"class Problem" not in answer.content
    assert answer.status_code in (200, 404)
    if answer.status_code == 200:
        assert answer.headers["content-type"].startswith("text/html")


@pytest.mark.parametrize("name", ["..", "%2e%2e%2f%2e%2e%2fformat.json", "ab", "a" * 65, "G" * 32])
def test_a_blob_is_named_by_a_hash_and_nothing_else(client: httpx.Client, name: str) -> None:
    answer = client.get(f"/api/blob/{name}")
    assert answer.status_code in (400, 404) or answer.headers["content-type"].startswith("text/html")


def test_a_blob_that_is_not_there_is_not_found(client: httpx.Client) -> None:
    answer = client.get(f"/api/blob/{'0' * 32}")
    assert (answer.status_code, answer.json()["error"]) == (404, "not_found")


def test_off_loopback_a_token_is_needed(demo_store: Path, serve: Serve) -> None:
    client = serve(demo_store, host="0.0.0.0", token=TOKEN)
    for headers in (
        {},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Cookie": "rolltrace_1=x"},
        {"Authorization": "Bearer"},
    ):
        answer = client.get("/api/status", headers=headers)
        assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
    assert client.get("/", params={"token": "wrong"}).status_code == 401
    assert client.get("/api/status", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_the_link_with_the_token_becomes_a_cookie(demo_store: Path, serve: Serve) -> None:
    client = serve(demo_store, host="0.0.0.0", token=TOKEN)
    address = str(client.base_url).rstrip("/") + "//evil.example/t/abcd"
    answer = client.get(address, params={"token": TOKEN, "tab": "tokens"})
    assert answer.status_code == 303
    assert answer.headers["location"] == "/evil.example/t/abcd?tab=tokens"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert client.get("/api/status").status_code == 200  # the client keeps the cookie


def test_with_a_token_an_address_of_numbers_is_answered_and_a_foreign_name_is_not(
    demo_store: Path, serve: Serve
) -> None:
    client = serve(demo_store, host="0.0.0.0", token=TOKEN)
    shown = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/api/status", headers={**shown, "Host": "10.0.0.7:7655"}).status_code == 200
    assert client.get("/api/status", headers={**shown, "Host": "evil.example"}).status_code == 421


def test_another_name_of_the_host_can_be_allowed() -> None:
    access = access_for("0.0.0.0", 80, TOKEN, ["Viewer.Example"])
    assert "viewer.example" in access.hosts


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.8.8.8", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("example.org", False)],
)  # fmt: skip
def test_loopback_is_told_from_other_addresses(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
