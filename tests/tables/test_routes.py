"""Which experiments go to which backend is known after their journals are gone."""

from __future__ import annotations

from pathlib import Path

import rolltrace
from rolltrace.tables import note_routes, outboxes, routes
from tests.draining import drain


def meta(*backends: str, project: str = "p", experiment: str = "e") -> dict[str, object]:
    return {"project": project, "experiment": experiment, "backends": list(backends)}


def test_a_route_is_kept_for_each_backend_but_the_store(tmp_path: Path) -> None:
    note_routes(tmp_path, meta("rolltrace", "mlflow", "weave"))
    note_routes(tmp_path, meta("mlflow", experiment="中文/..\x00"))
    assert outboxes(tmp_path) == ["mlflow", "weave"]
    assert routes(tmp_path, "mlflow") == {("p", "e"), ("p", "中文/..\x00")}
    assert routes(tmp_path, "weave") == {("p", "e")}


def test_the_store_alone_makes_no_outbox(tmp_path: Path) -> None:
    note_routes(tmp_path, meta("rolltrace"))
    note_routes(tmp_path, {})
    assert list(tmp_path.iterdir()) == []
    assert routes(tmp_path, "mlflow") == set()


def test_a_route_that_is_known_is_not_written_again(tmp_path: Path) -> None:
    note_routes(tmp_path, meta("mlflow"))
    (page,) = tmp_path.rglob("*.json")
    before = page.stat().st_mtime_ns
    note_routes(tmp_path, meta("mlflow"))
    assert page.stat().st_mtime_ns == before


def test_draining_a_journal_keeps_its_routes(harbour: object, tmp_path: Path) -> None:
    store = tmp_path / "store"
    rolltrace.init("p", "e", ["rolltrace", "shipping"], store=store)
    rolltrace.rollout_trace_op(abs)(-1)
    rolltrace.shutdown()
    drain(store)
    assert routes(store, "shipping") == {("p", "e")}


def test_a_page_that_is_not_ours_is_passed_over(tmp_path: Path) -> None:
    note_routes(tmp_path, meta("mlflow"))
    (tmp_path / "outbox" / "mlflow" / "routes" / "x.json").write_text("[1")
    assert routes(tmp_path, "mlflow") == {("p", "e")}
