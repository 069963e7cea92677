"""Claude Code as it comes from its vendor, offline: an agent that cannot be changed, traced by `rolltrace proxy`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import rolltrace
from tests.integrations.agents.proxies import proxying
from tests.integrations.agents.service import Service

ROOT = Path(__file__).parents[3]
(CLAUDE,) = (ROOT / ".venvs" / "claude-code").glob("node_modules/@anthropic-ai/claude-code-linux-*/claude") or (None,)


def test_turns_of_claude_code_are_one_trajectory_and_its_sub_agent_is_a_branch(
    service: Service, tmp_path: Path
) -> None:
    assert CLAUDE is not None, "run: make environment-claude-code"
    store = tmp_path / "store"
    rolltrace.init("agents", "proxy", store=store, drain="off", quiet=True)
    with (
        proxying(service.url, store) as address,
        rolltrace.rollout_trace_attr(step=1, sample_index="17+25") as trajectory,
    ):
        answer = subprocess.run(
            [CLAUDE, "-p", "SUBAGENT what is 17+25?", "--model", "fake", "--max-turns", "4"],
            env={
                "PATH": os.environ["PATH"], "HOME": str(tmp_path), "ANTHROPIC_API_KEY": "sk-secret-0123456789",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
                **rolltrace.proxied_env(trajectory, proxy=address),
            },
            cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        trajectory.reward(float("42" in answer.stdout))
    assert answer.returncode == 0, answer.stderr
    opened = rolltrace.open(store)
    main, branch = opened.sql("SELECT trajectory_id, turns, reward, step FROM trajectories ORDER BY start_ns").rows()
    assert (main["trajectory_id"], main["turns"], main["reward"]) == (trajectory.id, 2, 1.0)
    assert (branch["turns"], branch["step"]) == (1, 1)
    first, _ = opened.trajectory(trajectory.id).ops
    child = opened.trajectory(branch["trajectory_id"])
    assert (child.parent_trajectory_id, child.parent_op_id) == (trajectory.id, first.op_id)
    recorded = [*opened.trajectory(trajectory.id).ops, *child.ops]
    said = sorted((op.prompt_tokens, op.response_tokens, op.finish_reason) for op in recorded)
    usages = [(answer["usage"], answer["stop_reason"]) for answer in service.answers]
    assert said == sorted((usage["input_tokens"] + 3, usage["output_tokens"], reason) for usage, reason in usages)
    roles = [
        message["role"] for message in opened.trajectory(trajectory.id).conversation if message["role"] != "system"
    ]
    assert roles == ["user", "assistant", "tool", "assistant"]
    rolltrace.shutdown()
    written = b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())
    assert b"sk-secret" not in written


@pytest.fixture(autouse=True)
def _few_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
