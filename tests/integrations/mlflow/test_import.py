"""Traces that are in MLflow become trajectories, through its own client."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rolltrace.cli import main
from rolltrace.query import open_store
from tests.integrations.servers import MlflowServer

NAMED = ("--project", "p", "--experiment", "e")
TRACED = """
import sys, mlflow
mlflow.set_experiment(sys.argv[1])
for n in range(2):
    with mlflow.start_span("rollout", span_type="AGENT") as root:
        mlflow.update_current_trace(tags={"step": "3", "sample_index": "7", "rollout_n": str(n), "color": "red"})
        with mlflow.start_span("chat", span_type="CHAT_MODEL") as call:
            call.set_inputs({"messages": [{"role": "user", "content": "17+25?"}]})
            reply = {"message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}
            call.set_outputs({"choices": [reply], "usage": {"prompt_tokens": 5, "completion_tokens": 1}})
        with mlflow.start_span("add", span_type="TOOL") as tool:
            tool.set_inputs({"a": 17})
            tool.set_outputs(42)
    mlflow.flush_trace_async_logging()
    mlflow.log_feedback(trace_id=root.trace_id, name="reward", value=0.5 + n)
"""


def test_traces_become_trajectories_with_their_rewards(
    running_server: MlflowServer, project: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("MLFLOW_TRACKING_URI", running_server.url)
    subprocess.run([sys.executable, "-c", TRACED, project], check=True)
    arguments = ["import", "mlflow", project, "--store", str(tmp_path / "store"), *NAMED]
    assert main(arguments) == 0
    assert main(arguments) == 0
    assert "0 new trajectories imported" in capsys.readouterr().out
    store = open_store(tmp_path / "store")
    rows = store.trajectories(order="rollout_n").rows()
    names = ("name", "step", "sample_index", "rollout_n", "reward", "turns", "tool_calls", "prompt_tokens")
    assert [[row[name] for name in names] for row in rows] == [
        ["rollout", 3, 7, 0, 0.5, 1, 1, 5], ["rollout", 3, 7, 1, 1.5, 1, 1, 5],
    ]  # fmt: skip
    trajectory = store.trajectory(rows[0]["trajectory_id"])
    call, tool = trajectory.ops[0].children
    assert (call.kind, call.finish_reason, tool.name, tool.inputs, tool.outputs) == (
        "llm",
        "stop",
        "add",
        {"a": 17},
        42,
    )
    assert trajectory.tags["color"] == "red"


def test_an_experiment_that_is_not_there_is_one_line(
    running_server: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", running_server.url)
    assert main(["import", "mlflow", "nobody", "--store", str(tmp_path / "store"), *NAMED]) == 1
    assert "MLflow has no experiment 'nobody'" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()
