"""Claude Code and Codex as they come from their vendors, offline: agents that cannot be changed, traced by
`rolltrace proxy`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import rolltrace
from rolltrace.exchange import IMPORTS, ImportTarget, import_files
from rolltrace.query import Store
from tests.integrations.agents.proxies import proxying
from tests.integrations.agents.service import ANSWER, Service

ROOT = Path(__file__).parents[3]
CLAUDE = next((ROOT / ".venvs/claude-code").glob("node_modules/@anthropic-ai/claude-code-linux-*/claude"), None)
CODEX = next((ROOT / ".venvs/codex").glob("node_modules/@openai/codex-linux-*/vendor/*/bin/codex"), None)
KEY = "sk-secret-0123456789"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Path]:
    store = tmp_path / "store"
    rolltrace.init("agents", "proxy", store=store, drain="off", quiet=True)
    yield store
    rolltrace.shutdown()
    written = b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())
    assert b"17+25" in written
    assert b"sk-secret" not in written


def run(command: list[Any], home: Path, variables: dict[str, str]) -> str:
    """What an agent prints, with nothing of this machine in its environment."""
    ran = subprocess.run(
        command, env={"PATH": os.environ["PATH"], "HOME": str(home), **variables},
        cwd=home, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def roles(opened: Store, trajectory_id: str) -> list[str]:
    said = opened.trajectory(trajectory_id).conversation
    return [message["role"] for message in said if message["role"] not in ("system", "developer")]


def test_turns_of_claude_code_are_one_trajectory_and_its_sub_agent_is_a_branch(
    service: Service, tmp_path: Path, store: Path
) -> None:
    assert CLAUDE is not None, "run: make environment-claude-code"
    with (
        proxying(service.url, store) as address,
        rolltrace.rollout_trace_attr(step=1, sample_index="17+25") as trajectory,
    ):
        answer = run(
            [CLAUDE, "-p", "SUBAGENT what is 17+25?", "--model", "fake", "--max-turns", "4"],
            tmp_path,
            {
                "ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1",
                **rolltrace.proxied_env(trajectory, proxy=address),
            },
        )  # fmt: skip
        trajectory.reward(float("42" in answer))
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
    assert roles(opened, trajectory.id) == ["user", "assistant", "tool", "assistant"]
    sessions = tmp_path / ".claude" / "projects"
    recorded_there = imported("claude-code", sessions, tmp_path / "imported")
    assert [(turns, tools) for turns, tools, *_ in recorded_there] == [(2, 1), (1, 0)]


def imported(name: str, folder: Path, store: Path) -> list[tuple[Any, ...]]:
    """Turns, tool calls and tokens of each session that an agent has written itself, the longest first."""
    form = IMPORTS[name]
    report = import_files(form.reader, [folder], ImportTarget(store, "p", "e"), files_of=form.files)
    assert report.malformed == 0
    rows = rolltrace.open(store).trajectories(order="-turns").rows()
    return [
        tuple(row[column] for column in ("turns", "tool_calls", "prompt_tokens", "response_tokens")) for row in rows
    ]


PROVIDERS = {
    "a provider of its own": (
        "model_provider=mine",
        'model_providers.mine={{name="mine", base_url="{base}", env_key="CODEX_API_KEY", wire_api="responses"}}',
    ),
    "the built-in provider, which asks for a WebSocket first": ("openai_base_url={base}",),
}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_turns_of_codex_are_one_trajectory(service: Service, tmp_path: Path, store: Path, provider: str) -> None:
    assert CODEX is not None, "run: make environment-codex"
    with (
        proxying(service.url, store) as address,
        rolltrace.rollout_trace_attr(step=1, sample_index="17+25") as trajectory,
    ):
        base = rolltrace.proxied_env(trajectory, proxy=address)["OPENAI_BASE_URL"]
        settings = [
            *(setting.format(base=base) for setting in PROVIDERS[provider]),
            "model=fake", "analytics.enabled=false", "check_for_update_on_startup=false",
        ]  # fmt: skip
        answer = run(
            [
                CODEX, "exec", *(word for setting in settings for word in ("-c", setting)), "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox", "TOOL what is 17+25?",
            ],
            tmp_path,
            {"CODEX_API_KEY": KEY},
        )  # fmt: skip
        trajectory.reward(float("42" in answer))
    assert (answer.strip(), len(service.seen)) == (ANSWER, 2)
    opened = rolltrace.open(store)
    (row,) = opened.trajectories().rows()
    assert (row["trajectory_id"], row["turns"], row["reward"]) == (trajectory.id, 2, 1.0)
    recorded = opened.trajectory(trajectory.id)
    assert [(op.name, op.status) for op in recorded.ops] == [("openai.responses", "ok")] * 2
    assert [(op.prompt_tokens, op.response_tokens, op.finish_reason) for op in recorded.ops] == [
        (each["usage"]["input_tokens"], each["usage"]["output_tokens"], "completed") for each in service.answers
    ]
    assert [op.inputs["input"] for op in recorded.ops] == [request.body["input"] for request in service.seen]
    *_, call, result, last = recorded.conversation
    assert call["tool_calls"][0]["function"] == {"name": "exec_command", "arguments": '{"cmd": "echo 42"}'}
    assert (result["role"], "42" in result["content"], last["content"]) == ("tool", True, ANSWER)
    (session,) = imported("codex", tmp_path / ".codex" / "sessions", tmp_path / "imported")
    assert session == (2, 1, row["prompt_tokens"], row["response_tokens"])
