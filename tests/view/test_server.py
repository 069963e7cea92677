"""What the server does around its answers: errors, ETags, compression, live updates, stores in any state."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import rolltrace
from rolltrace.cli import main
from rolltrace.tables import Place, TableStore, address_in, prune_payloads
from rolltrace.view.openapi import document
from tests.background import eventually
from tests.draining import add_rows
from tests.view.stores import EXPERIMENT, PROJECT
from tools.gen_openapi import FILE, text

Serve = Callable[..., httpx.Client]
MATHS = {"project": PROJECT, "experiment": EXPERIMENT}


def prune(store: Path, step: int, trajectory_id: str) -> None:
    place = Place(PROJECT, EXPERIMENT, step)
    assert prune_payloads(TableStore(address_in(store)), {place: [trajectory_id]}, policy="a test").trajectories == 1


@pytest.mark.parametrize(
    ("path", "status", "error"),
    [
        ("/api/nothing", 404, "not_found"),
        ("/api/trajectory/0123456789abcdef", 404, "not_found"),
        ("/api/trajectory/zz", 400, "bad_request"),
        ("/api/trajectory/..%2f..%2fetc", 404, "not_found"),
        ("/api/experiment?project=p&experiment=none", 404, "not_found"),
        ("/api/experiment", 400, "bad_request"),
        ("/api/groups?step=one", 400, "bad_request"),
        ("/api/groups?limit=0", 400, "bad_request"),
        ("/api/groups?limit=100000", 400, "bad_request"),
        ("/api/groups?unknown=1", 400, "bad_request"),
        ("/api/groups?order=nothing", 400, "bad_request"),
        ("/api/groups?after=xyz", 400, "bad_request"),
        ("/api/groups?run=a&all_runs=true", 400, "bad_request"),
        ("/api/trajectories?where=reward+<", 400, "filter"),
        ("/api/compare?ids=abcd", 400, "bad_request"),
        ("/api/compare?ids=" + ",".join(["abcd"] * 9), 400, "bad_request"),
        ("/api/search?q=", 400, "bad_request"),
        ("/api/search", 400, "bad_request"),
    ],
)
def test_a_request_that_makes_no_sense_is_told_why(client: httpx.Client, path: str, status: int, error: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["error"]) == (status, error)
    assert answer.json()["detail"]


def test_an_answer_that_is_still_right_is_not_sent_again(client: httpx.Client) -> None:
    first = client.get("/api/groups", params={**MATHS, "step": 1})
    again = client.get("/api/groups", params={**MATHS, "step": 1}, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = client.get("/api/groups", params={**MATHS, "step": 2}, headers={"If-None-Match": first.headers["etag"]})
    assert other.status_code == 200


def test_large_answers_are_compressed_if_the_client_takes_that(client: httpx.Client) -> None:
    packed = client.get("/api/groups", params=MATHS)
    plain = client.get("/api/groups", params=MATHS, headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json()


def test_any_other_address_is_a_page(client: httpx.Client) -> None:
    for path in ("/", "/e/maths/grpo-7b/step/3", "/t/abcd", "/live", "/search?q=x"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/html")
    assert client.get("/assets/nothing.js").status_code == 404


def test_the_openapi_file_of_the_pages_is_up_to_date() -> None:
    assert FILE.read_text() == text(), "run: make gen"
    assert document()["components"]["schemas"]["OutlineOp"]["properties"]["turn"]["description"]


def test_an_empty_store_has_empty_answers(tmp_path: Path, serve: Serve) -> None:
    client = serve(tmp_path)
    assert client.get("/api/experiments").json() == {"rows": []}
    for path in ("groups", "trajectories", "facets", "live", "status", "jump?q=a", "search?q=a", "filter/complete"):
        assert client.get(f"/api/{path}").status_code == 200, path


def test_a_store_of_one_running_trajectory_is_shown_and_updated(tmp_path: Path, serve: Serve) -> None:
    client = serve(tmp_path)
    rolltrace.init("p", "e", "rolltrace", store=tmp_path, drain="off", quiet=True)

    @rolltrace.rollout_trace_op(name="python", kind="tool")
    def running(code: str) -> Any:
        with client.stream("GET", "/api/events") as stream:
            events = (line for line in stream.iter_lines() if line.startswith("data: "))
            return next(live for event in events if (live := json.loads(event.removeprefix("data: ")))["rows"])

    with rolltrace.rollout_trace_attr(3, 1, 0, name="waits"):
        live = running("while True: pass")
        rolltrace.flush()
    (row,) = live["rows"]
    assert (row["name"], row["current_op"], row["current_kind"], row["sample_index"]) == (
        "waits",
        "python",
        "tool",
        "3",
    )
    assert row["age_s"] >= row["op_age_s"] >= 0
    assert live["status"]["recording"] is True
    assert live["workers"][0]["running"] == 1


@pytest.mark.filterwarnings("ignore::rolltrace.errors.IncompleteWarning")
def test_a_damaged_file_is_named_and_the_rest_is_shown(demo_store: Path, tmp_path: Path, serve: Serve) -> None:
    store = shutil.copytree(demo_store, tmp_path / "store")
    file = next(iter(sorted((store / "trajectories" / "data").rglob("step-1/settled-*.parquet"))))
    file.write_bytes(file.read_bytes()[:-2000] + bytes(2000))
    client = serve(store)
    assert client.get("/api/experiments").json()["rows"]
    assert client.get("/api/groups", params={**MATHS, "step": 2}).json()["rows"]
    status = client.get("/api/status").json()
    assert [each["file"] for each in status["incomplete"]] == [str(file.relative_to(store))]
    assert status["incomplete"][0]["reason"]


def test_a_store_can_be_pruned_under_a_server(demo_store: Path, tmp_path: Path, serve: Serve) -> None:
    store = shutil.copytree(demo_store, tmp_path / "store")
    client = serve(store)
    trajectory_id = client.get("/api/groups", params={**MATHS, "step": 0}).json()["rows"][0]["best"]
    assert client.get(f"/api/trajectory/{trajectory_id}").json()["pruned"] is None
    prune(store, 0, trajectory_id)

    def says_so() -> bool:
        said = client.get(f"/api/trajectory/{trajectory_id}").json()["pruned"]
        return said is not None and said.endswith("by a test")

    eventually(says_so)
    assert client.get(f"/api/trajectory/{trajectory_id}/conversation").json()["messages"] == []
    op_id = client.get(f"/api/trajectory/{trajectory_id}").json()["outline"][0]["op_id"]
    assert "$pruned" in client.get(f"/api/trajectory/{trajectory_id}/op/{op_id}").json()["inputs"]


def test_what_somebody_chose_to_leave_out_is_not_lost(demo_store: Path, tmp_path: Path, serve: Serve) -> None:
    store = shutil.copytree(demo_store, tmp_path / "store")
    trajectory_id = rolltrace.open(store).trajectories(step=0, experiment=EXPERIMENT, limit=1)[0]["trajectory_id"]
    prune(store, 0, trajectory_id)
    for reason, count in (("sample_limit", 5), ("retention", 7), ("disk_full", 3)):
        row = {**MATHS, "step": 0, "validate": False, "worker": "a test", "reason": reason, "count": count}
        add_rows(store, Place(PROJECT, EXPERIMENT, 0), {"losses": [row]})
    client = serve(store)
    assert client.get("/api/status").json()["lost"] == 3
    rows = client.get("/api/experiments").json()["rows"]
    assert {row["experiment"]: row["lost"] for row in rows if row["lost"]} == {"grpo-7b": 3}
    assert sum(client.get("/api/experiment", params=MATHS).json()["training"]["lost"]) == 3
    assert client.get(f"/api/trajectory/{trajectory_id}").json()["losses"] == [{"reason": "disk_full", "count": 3}]


def test_a_step_and_the_whole_store_can_go_under_a_server(demo_store: Path, tmp_path: Path, serve: Serve) -> None:
    store = shutil.copytree(demo_store, tmp_path / "store")
    client = serve(store)
    gone = client.get("/api/groups", params={**MATHS, "step": 0}).json()["rows"][0]["best"]
    assert main(["store", "rm", str(store), "--where", f"experiment = '{EXPERIMENT}' and step = 0", "--yes"]) == 0
    eventually(lambda: client.get(f"/api/trajectory/{gone}").status_code == 404)
    assert client.get("/api/groups", params={**MATHS, "step": 0}).json()["rows"] == []
    shutil.rmtree(store)
    answer = client.get("/api/status")
    assert (answer.status_code, answer.json()["error"]) == (503, "store")
    with client.stream("GET", "/api/events") as stream:
        assert next(line for line in stream.iter_lines() if line) == "event: problem"
    assert client.get("/").status_code == 200


def test_the_command_prints_where_it_listens_and_ends_with_ctrl_c(demo_store: Path) -> None:
    command = [sys.executable, "-m", "rolltrace.cli", "view", str(demo_store), "--port", "0", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert str(demo_store) in lines[0]
    url = lines[1].strip()
    assert url.startswith("http://127.0.0.1:")
    assert httpx.get(f"{url}api/status", timeout=60).json()["store_path"] == str(demo_store)
    os.kill(process.pid, signal.SIGINT)
    rest, _ = process.communicate()
    assert (process.returncode, rest) == (0, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--token", "short"], "a token has at least 16 printable ASCII characters"),
        (["--host", "host.invalid"], "cannot listen on host.invalid"),
        (["/no/such/store"], "there is no store at"),
    ],
)
def test_the_command_says_what_is_wrong(
    demo_store: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    store = [] if arguments[0].startswith("/") else [str(demo_store)]
    assert main(["view", "--no-browser", *store, *arguments]) == 1
    assert message in capsys.readouterr().err
