"""`rolltrace collect` as a process: what it answers, what it refuses, and what a kill leaves."""

from __future__ import annotations

import gzip
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from rolltrace._protobuf import bytes_field
from rolltrace.backends.otlp.wire import PartialSuccess, read_response
from rolltrace.cli import main
from rolltrace.query import open_store
from tests.nightly import nightly

from .rig import Collecting, collecting, request_of, span


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collecting]:
    with collecting(tmp_path_factory.mktemp("c") / "store", "--project", "p") as running:
        yield running


def traces_of(store: Path) -> dict[str, int]:
    rows = open_store(store).sql("SELECT trajectory_id, count(*) AS n FROM spans GROUP BY ALL").rows()
    return {row["trajectory_id"].lstrip("0"): row["n"] for row in rows}


def test_what_was_acknowledged_survives_a_kill_and_comes_once_when_it_is_sent_again(tmp_path: Path) -> None:
    bodies = [request_of(span(100 + n, 1, trace=n), span(200 + n, None, trace=n, rl_step=n)) for n in range(1, 6)]
    waiting = request_of(span(300, 1, trace=9))
    with collecting(tmp_path / "store") as first:
        assert [first.post(body).status_code for body in bodies] == [200] * 5
        assert first.post(waiting).status_code == 200
        first.process.send_signal(signal.SIGKILL)
        first.process.wait()
    assert traces_of(tmp_path / "store") == {str(n): 2 for n in range(1, 6)}
    with collecting(tmp_path / "store") as second:
        assert [second.post(body).status_code for body in [*bodies, waiting]] == [200] * 6
        assert second.post(request_of(span(301, None, trace=9, rl_step=9))).status_code == 200
    assert traces_of(tmp_path / "store") == {**{str(n): 2 for n in range(1, 6)}, "9": 2}
    assert sorted(row["step"] for row in open_store(tmp_path / "store").trajectories().rows()) == [1, 2, 3, 4, 5, 9]


def test_protobuf_json_and_compression_are_taken(collector: Collecting) -> None:
    body = request_of(span(1, None, trace=0xA1))
    answer = collector.post(gzip.compress(body, mtime=0), content_encoding="gzip")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
    assert read_response(answer.content) == PartialSuccess(is_rolltrace=True)
    sent = {
        "traceId": "a2".rjust(32, "0"), "spanId": "02".rjust(16, "0"), "name": "x", "startTimeUnixNano": "5",
        "endTimeUnixNano": "6",
    }  # fmt: skip
    request = {"resourceSpans": [{"scopeSpans": [{"spans": [sent]}]}]}
    answer = collector.post(json.dumps(request).encode(), content_type="application/json")
    assert (answer.status_code, answer.json()) == (200, {})
    assert {"a1", "a2"} <= traces_of(collector.store).keys()


def test_a_body_that_is_sent_in_pieces_is_taken(collector: Collecting) -> None:
    body = request_of(span(3, None, trace=0xA3))
    pieces = (body[at : at + 7] for at in range(0, len(body), 7))
    headers = {"content-type": "application/x-protobuf"}
    assert httpx.post(f"{collector.url}/v1/traces", content=pieces, headers=headers, trust_env=False).status_code == 200
    assert "a3" in traces_of(collector.store)


def test_partial_success_says_how_many_spans_were_left_out_and_why(collector: Collecting) -> None:
    good, bad = span(4, None, trace=0xA4), span(5, None, trace=0xA4)
    bad.span_id = bytes(8)
    answer = collector.post(request_of(good, bad))
    assert answer.status_code == 200
    assert read_response(answer.content).rejected_spans == 1
    assert "span id" in read_response(answer.content).message
    assert traces_of(collector.store)["a4"] == 1


@pytest.mark.parametrize(
    ("body", "path", "headers", "status"),
    [
        (b"\xff\xff", "/v1/traces", {}, 400),
        (b"{", "/v1/traces", {"content_type": "application/json"}, 400),
        (b"no", "/v1/traces", {"content_encoding": "gzip"}, 400),
        (gzip.compress(b"x" * 1000, mtime=0)[:-10], "/v1/traces", {"content_encoding": "gzip"}, 400),
        (gzip.compress(b"\0" * (130 << 20), 1, mtime=0), "/v1/traces", {"content_encoding": "gzip"}, 413),
        (b"", "/v1/traces", {"content_type": "text/plain"}, 415),
        (b"", "/v1/traces", {"content_encoding": "br"}, 415),
        (b"", "/v1/logs", {}, 404),
        (b"", "/v1/metrics", {}, 404),
        (b"", "/v1/traces", {"origin": "https://evil.example"}, 403),
        (b"", "/v1/traces", {"host": "evil.example"}, 421),
    ],
    ids=[
        "no protobuf",
        "no JSON",
        "no gzip",
        "cut gzip",
        "bomb",
        "text",
        "brotli",
        "logs",
        "metrics",
        "origin",
        "host",
    ],
)
def test_what_is_no_request_is_refused_for_good(
    body: bytes, path: str, headers: dict[str, str], status: int, collector: Collecting
) -> None:
    answer = collector.post(body, path, **headers)
    assert answer.status_code == status
    assert answer.content


def test_a_body_that_is_too_large_is_refused_before_it_is_read(collector: Collecting) -> None:
    answer = collector.post(b"\0" * ((32 << 20) + 1))
    assert answer.status_code == 413


def test_beyond_this_machine_senders_show_the_token(tmp_path: Path) -> None:
    with collecting(tmp_path / "store", "--host", "0.0.0.0") as running:
        line = next(line for line in running.printed if "HEADERS" in line)
        token = line.rpartition("%20")[2]
        body = request_of(span(1, None))
        assert running.post(body).status_code == 401
        assert running.post(body, authorization="Bearer wrong").status_code == 401
        assert running.post(body, authorization=f"Bearer {token}").status_code == 200


def test_a_short_token_or_a_port_that_is_taken_is_one_line(
    collector: Collecting, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["collect", str(tmp_path / "s"), "--token", "short"]) == 1
    assert "at least 16 printable" in capsys.readouterr().err
    port = collector.url.rpartition(":")[2]
    assert main(["collect", str(tmp_path / "s"), "--port", port]) == 1
    assert "cannot listen" in capsys.readouterr().err


def json_spans(*spans: str) -> bytes:
    return ('{"resourceSpans":[{"scopeSpans":[{"spans":[' + ",".join(spans) + "]}]}]}").encode()


def json_span(number: int, attributes: str = "") -> str:
    times = '"startTimeUnixNano":"5","endTimeUnixNano":"6"'
    return f'{{"traceId":"{"b" * 32}","spanId":"{number:016x}","name":"x",{times},"attributes":[{attributes}]}}'


def text_attribute(name: str, value: str) -> str:
    return json.dumps({"key": name, "value": {"stringValue": value}})


def lists_in_text(count: int) -> str:
    return text_attribute("input.value", "[" + "[]," * count + "[]]")


MANY = 3_000_000
NESTED = b""
for _ in range(100):
    NESTED = bytes_field(5, bytes_field(1, NESTED))
BOMBS = {
    "empty resources": ("application/json", b'{"resourceSpans":[' + b"{}," * MANY + b"{}]}", 413),
    "lists beside": ("application/json", b'{"a":[' + b"[]," * MANY + b"[]]}", 413),
    "nested": ("application/json", b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
    "attributes": ("application/json", json_spans(json_span(1, "{}," * MANY + "{}")), 413),
    "spans": ("application/json", json_spans(*[json_span(2)] * 20_000), 413),
    "JSON in an attribute": ("application/json", json_spans(json_span(3, lists_in_text(MANY))), 413),
    "JSON in many attributes": (
        "application/json",
        json_spans(*(json_span(at, lists_in_text(MANY // 20)) for at in range(4, 24))),
        413,
    ),
    "protobuf resources": ("application/x-protobuf", b"\x0a\x00" * MANY, 413),
    "protobuf spans": ("application/x-protobuf", bytes_field(1, bytes_field(2, b"\x12\x00" * 20_000)), 413),
    "protobuf attributes": (
        "application/x-protobuf",
        bytes_field(1, bytes_field(2, bytes_field(2, bytes_field(9, b"") * MANY))),
        413,
    ),
    "protobuf values": (
        "application/x-protobuf",
        bytes_field(1, bytes_field(2, bytes_field(2, bytes_field(9, bytes_field(1, b"a") + bytes_field(2, NESTED))))),
        400,
    ),
    "unpacked": ("application/x-protobuf", bytes(65 << 20), 413),
}  # fmt: skip


@pytest.mark.parametrize("bomb", nightly(list(BOMBS), list(BOMBS)[::3]))
def test_a_small_request_that_unpacks_to_too_much_is_refused_with_the_limit(collector: Collecting, bomb: str) -> None:
    kind, body, status = BOMBS[bomb]
    packed = gzip.compress(body, 1, mtime=0)
    answer = collector.post(packed, content_encoding="gzip", content_type=kind)
    assert answer.status_code == status
    assert b"at most " in answer.content
    assert collector.post(request_of(span(1, None, trace=0xC1))).status_code == 200


def test_long_texts_are_no_items(collector: Collecting) -> None:
    text = 'a long text, with commas, {braces} and "quotes", \\ and lists [1, 2] ' * 100_000
    answer = collector.post(
        json_spans(json_span(99, text_attribute("input.value", text))), content_type="application/json"
    )
    assert answer.status_code == 200


@pytest.mark.parametrize("host", ["127.evil.example", "evil.example@127.0.0.1", "127.0.0.1#evil.example", "localhost."])
def test_a_host_that_only_looks_like_this_machine_is_refused(collector: Collecting, host: str) -> None:
    assert collector.post(request_of(span(1, None, trace=0xC2)), host=host).status_code == 421
