"""What a proxy of another run records for a rollout belongs to that rollout: its run, its step, its sample."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.query import open_store
from tests.draining import drain
from tests.integrations.agents.proxies import proxying


class Model(BaseHTTPRequestHandler):
    """Answers every call in the same way."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "42"}
        body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def ask(base: str, text: str) -> None:
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    request = urllib.request.Request(f"{base}/chat/completions", body, {"content-type": "application/json"})
    urllib.request.urlopen(request).close()


@pytest.mark.parametrize("first", ["proxy", "trainer"])
@pytest.mark.parametrize("drained", [False, True])
def test_a_branch_has_the_run_and_coordinates_of_its_rollout(
    tmp_path: Path, upstream: str, first: str, drained: bool
) -> None:
    def train() -> None:
        rolltrace.init("agents", "e", store=tmp_path, drain="off", run="trainer")

    with ExitStack() as stack:
        if first == "trainer":
            train()
        address = stack.enter_context(
            proxying(upstream, tmp_path, "--experiment", "e", variables={"ROLLTRACE_RUN": "proxy"})
        )
        train()
        for n in range(2):
            with rolltrace.rollout_trace_attr(step=1, sample_index=7, rollout_n=n) as trajectory:
                base = rolltrace.proxied_env(trajectory, proxy=address)["OPENAI_BASE_URL"]
                ask(base, "what is 17 + 25?")
                ask(base, "a sub-agent's task")
                trajectory.reward(float(n))
        rolltrace.shutdown()
    if drained:
        drain(tmp_path)
    store = open_store(tmp_path)
    rows = store.trajectories(order="rollout_n,start_ns")
    assert rows.older_runs == (0, 0)
    assert [
        (row["run"], row["step"], row["sample_index"], row["rollout_n"], row["name"], row["turns"], row["reward"])
        for row in rows
    ] == [
        ("trainer", 1, 7, 0, "rollout_trace", 1, 0.0),
        ("trainer", 1, 7, 0, "branch", 1, None),
        ("trainer", 1, 7, 1, "rollout_trace", 1, 1.0),
        ("trainer", 1, 7, 1, "branch", 1, None),
    ]
    assert [(group["size"], group["mean"], group["run"]) for group in store.groups(step=1)] == [(2, 0.5, "trainer")]
    assert [row["name"] for row in store.group(1, 7)] == ["rollout_trace"] * 2
    assert len(store.compare_group(1, 7).trajectories) == 2
    assert [row["size"] for row in store.history(7)] == [2]


def test_the_newest_run_is_chosen_by_its_own_start_and_not_by_that_of_an_older_proxy(
    tmp_path: Path, upstream: str
) -> None:
    with proxying(upstream, tmp_path, "--experiment", "e", variables={"ROLLTRACE_RUN": "proxy"}) as address:
        for run in ("first", "second"):
            rolltrace.init("agents", "e", store=tmp_path, drain="off", run=run)
            with rolltrace.rollout_trace_attr(step=1, sample_index=7, rollout_n=0) as trajectory:
                base = rolltrace.proxied_env(trajectory, proxy=address)["OPENAI_BASE_URL"]
                ask(base, "what is 17 + 25?")
                ask(base, "a sub-agent's task")
            rolltrace.shutdown()
    rows = open_store(tmp_path).trajectories()
    assert [(row["run"], row["name"]) for row in rows] == [("second", "rollout_trace"), ("second", "branch")]
    assert rows.older_runs == (2, 1)


def test_what_another_run_begins_inside_a_rollout_is_of_the_run_of_the_rollout(tmp_path: Path) -> None:
    rolltrace.init("agents", "e", store=tmp_path, drain="off", run="trainer")
    with rolltrace.rollout_trace_attr(step=1, sample_index=7, rollout_n=0):
        context = rolltrace.current_context()
    rolltrace.shutdown()
    rolltrace.init("agents", "e", store=tmp_path, drain="off", run="worker")
    with rolltrace.use_context(context), rolltrace.rollout_trace_attr(7, step=1, rollout_n=0, name="inside"):
        pass
    rolltrace.shutdown()
    assert [(row["run"], row["name"]) for row in open_store(tmp_path).trajectories()] == [
        ("trainer", "rollout_trace"),
        ("trainer", "inside"),
    ]
