"""Who is answered, and what no request can reach."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from rolltrace.view import is_loopback
from rolltrace.view.openapi import document

TOKEN = "a-token-of-some-length"
Serve = Callable[..., httpx.Client]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:7655", "127.0.0.1.evil.example", "", "10.0.0.7", "[::2]"]
)
def test_on_loopback_another_host_name_is_refused(client: httpx.Client, host: str) -> None:
    answer = client.get("/api/status", headers={"Host": host})
    assert answer.status_code in (400, 421)  # the web server itself refuses none at all


@pytest.mark.parametrize(
    "host",
    [
        "evil.com:80@127.0.0.1", "evil.com@localhost", "127.0.0.1#evil.com", "127.0.0.1/evil.com", "127.0.0.1?evil.com",
        "127.0.0.1\\evil.com", "127.0.0.1:80:80", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1", "127.0.0.1:99999",
        "127.0.0.1:80#evil.com", "localhost,evil.com", "localhost evil.com", "[localhost]", "[127.0.0.1]", "[::1",
        "[::1]evil.com", "[::1%25lo]", "::1", "::1:80", "http://localhost", "localhost%00", "localhost%2eevil.com",
        "127.0.0.1:8\t0",
    ],
)  # fmt: skip
def test_a_host_that_is_more_than_a_name_and_a_port_is_refused(client: httpx.Client, host: str) -> None:
    answer = client.get("/api/status", headers={"Host": host})
    assert answer.status_code in (400, 421)


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


WRITES = ("POST", "PUT", "PATCH", "DELETE")
JSON = {"Content-Type": "application/json"}
EVERY_PATH = tuple(document()["paths"])


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_unusual_methods_are_refused(client: httpx.Client, method: str) -> None:
    assert client.request(method, "/api/status").status_code in (400, 405)


@pytest.mark.parametrize("path", ["/", *EVERY_PATH, "/api/nothing", "/assets/x.js"])
def test_no_page_of_another_site_can_make_a_request_that_changes_something(client: httpx.Client, path: str) -> None:
    own = str(client.base_url).rstrip("/")
    for method in WRITES:
        foreign_page = client.request(method, path, headers={**JSON, "Origin": "http://evil.example"}, content="{}")
        old_form = client.request(method, path, content="a=b", headers={"Content-Type": "text/plain"})
        own_form = client.request(method, path, data={"a": "b"}, headers={"Origin": own})
        navigation = client.request(
            method, path, headers={**JSON, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
        )
        statuses = [each.status_code for each in (foreign_page, old_form, own_form, navigation)]
        assert statuses[0] == statuses[3] == 403, method
        assert set(statuses) <= {403, 405}, method


def test_a_preflight_of_another_site_is_refused(client: httpx.Client) -> None:
    asks = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = client.options("/api/status", headers=asks)
    assert answer.status_code == 403
    assert "access-control-allow-origin" not in answer.headers


def test_a_write_of_the_own_page_passes_the_guard(client: httpx.Client) -> None:
    own = str(client.base_url).rstrip("/")
    answer = client.post("/api/status", headers={"Origin": own, "Sec-Fetch-Site": "same-origin"}, json={})
    assert answer.status_code == 405  # this path takes none


def test_a_cookie_does_not_help_another_site(demo_store: Path, serve: Serve) -> None:
    client = serve(demo_store, host="0.0.0.0", token=TOKEN)
    client.get("/", params={"token": TOKEN})
    assert client.get("/api/status").status_code == 200
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}):
        assert client.get("/api/status", headers=headers).status_code == 403
        assert client.post("/api/status", headers={**headers, **JSON}).status_code == 403


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


def test_no_parameter_of_a_path_reaches_the_file_system(client: httpx.Client) -> None:
    harmful = (
        "..", ".", "%2e%2e", "..%2f..%2f..%2fetc%2fpasswd", "%2fetc%2fpasswd", "....//", "a%00b", "%00", "%0a%0d", "~",
        "..%5c..%5cformat.json", "%c0%ae%c0%ae%2f", "format.json", "*", "%25", "\"'%3B--", "-1", "9" * 400, "a" * 9000,
    )  # fmt: skip
    for path in EVERY_PATH:
        for name in harmful if "{" in path else ():
            filled = re.sub(r"{\w+}", lambda _, name=name: name, path)
            answer = client.send(httpx.Request("GET", str(client.base_url).rstrip("/") + filled))
            assert answer.status_code in (400, 404) or answer.headers["content-type"].startswith("text/html"), filled
            assert b"root:" not in answer.content
            assert b"format_version" not in answer.content


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
    first = client.get("/t/abcd", params={"token": TOKEN, "tab": "tokens"})
    assert first.status_code == 303
    assert "set-cookie" not in first.headers  # for "/t" it would be no use
    second = client.get(str(first.next_request.url))
    cookie = second.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "path" not in cookie  # of the folder of the root, which only the browser knows
    assert second.next_request.url.raw_path == b"/t/abcd?tab=tokens"
    assert client.get("/api/status").status_code == 200  # the client keeps the cookie


@pytest.mark.parametrize(
    "place",
    [
        "//evil.example/",
        "\\\\evil.example",
        "https://evil.example",
        "/\t/evil.example",
        "a\r\nSet-Cookie: x=y",
        "\x00é",
    ],
)
def test_the_link_with_the_token_leads_nowhere_else(demo_store: Path, serve: Serve, place: str) -> None:
    client = serve(demo_store, host="0.0.0.0", token=TOKEN)
    answer = client.get("/", params={"token": TOKEN, "next": place})
    assert answer.status_code == 303
    assert answer.next_request.url.host == "127.0.0.1"
    assert len(answer.headers.get_list("set-cookie")) == 1
    doubled = client.get(str(client.base_url).rstrip("/") + "//evil.example/t", params={"token": TOKEN})
    assert doubled.next_request.url.host == "127.0.0.1"


def test_with_a_token_an_address_of_numbers_is_answered_and_a_foreign_name_is_not(
    demo_store: Path, serve: Serve
) -> None:
    client = serve(demo_store, host="0.0.0.0", token=TOKEN)
    shown = {"Authorization": f"Bearer {TOKEN}"}
    assert client.get("/api/status", headers={**shown, "Host": "10.0.0.7:7655"}).status_code == 200
    assert client.get("/api/status", headers={**shown, "Host": "evil.example"}).status_code == 421


def test_the_name_of_a_proxy_can_be_allowed_and_its_pages_may_ask(demo_store: Path, serve: Serve) -> None:
    client = serve(demo_store, allow_hosts=["Viewer.Example:8443"])
    assert client.get("/api/status", headers={"Host": "viewer.example:8443"}).status_code == 200
    # A proxy that puts its own name for the server into Host leaves Origin as it is.
    for origin, status in (("https://viewer.example:8443", 405), ("https://viewer.example:1", 403)):
        assert client.post("/api/status", headers={**JSON, "Origin": origin}).status_code == status


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.8.8.8", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("example.org", False)],
)  # fmt: skip
def test_loopback_is_told_from_other_addresses(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback
