"""Links to the viewer from vendors, and to vendors from the viewer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rolltrace.backends.values import view_link, web_address
from rolltrace.tables import links_of, outbox_folder, save_links

ID = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("http://lab:7655", f"http://lab:7655/t/{ID}"),
        (" https://lab.example/rolltrace/ ", f"https://lab.example/rolltrace/t/{ID}"),
        ("http://me:secret@lab:7655/?token=x#y", f"http://lab:7655/t/{ID}"),
        ("http://[::1]:7655", f"http://[::1]:7655/t/{ID}"),
        ("", None),
        ("lab:7655", None),
        ("javascript:alert(1)", None),
        ("file:///etc", None),
        ("http://", None),
        ("http://lab:none", None),
    ],
)
def test_the_link_of_a_trajectory_is_made_of_the_viewers_address(
    monkeypatch: pytest.MonkeyPatch, said: str, address: str | None
) -> None:
    monkeypatch.setenv("ROLLTRACE_VIEW_URL", said)
    assert view_link(ID) == address


def test_without_an_address_there_is_no_link(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROLLTRACE_VIEW_URL", raising=False)
    assert view_link(ID) is None
    assert web_address("sqlite:////tmp/mlflow.db") is None


def test_the_pages_of_a_run_are_kept_once_and_found_for_its_trajectories(tmp_path: Path) -> None:
    for url in ("http://old/{id}", "http://mlflow/#/traces?traceId=tr-{id}"):
        save_links(tmp_path, "mlflow", "p", "e", "run-1", {"MLflow trace": url})
    save_links(tmp_path, "weave", "p", "e", "run-1", {"Weave call": "https://wandb.ai/team/p/r/call/{uuid}"})
    assert links_of(tmp_path, "p", "e", "run-1", ID) == {
        "MLflow trace": f"http://mlflow/#/traces?traceId=tr-{ID}",
        "Weave call": "https://wandb.ai/team/p/r/call/01234567-89ab-cdef-0123-456789abcdef",
    }
    assert links_of(tmp_path, "p", "e", "run-2", ID) == {}
    assert links_of(tmp_path, "p", "../e", None, ID) == {}


@pytest.mark.parametrize(
    "kept",
    [b"", b"[1]", b"\xff", json.dumps({"x": "javascript:alert(1)", "y": 3, "z": "http://" + "x" * 3000}).encode()],
)
def test_a_crafted_file_gives_no_link(tmp_path: Path, kept: bytes) -> None:
    save_links(tmp_path, "mlflow", "p", "e", None, {"MLflow run": "http://mlflow"})
    (file,) = (outbox_folder(tmp_path, "mlflow") / "links").glob("*.json")
    file.write_bytes(kept)
    assert links_of(tmp_path, "p", "e", None, ID) == {}
