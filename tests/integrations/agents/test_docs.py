"""The how-to pages are true: their examples run, against a service on this machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import rolltrace
from tests.docs.pages import blocks_of
from tests.integrations.agents.proxies import proxying
from tests.integrations.agents.service import Service

ROOT = Path(__file__).parents[3]
AGENT = """
import openai
said = [{"role": "user", "content": "What is 17 + 25?"}]
print(openai.OpenAI().chat.completions.create(model="m", messages=said).choices[0].message.content)
"""


def examples(page: str, language: str) -> str:
    return "\n".join(block.text for block in blocks_of(ROOT / "docs/howto" / page) if block.language == language)


def run(program: str, folder: Path, **variables: str) -> str:
    environment = {**os.environ, "ROLLTRACE_STORE": str(folder / "store"), "OPENAI_API_KEY": "x", **variables}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize(
    ("page", "prints"),
    [
        ("sdk.md", "The answer is 42."),
        ("litellm.md", "The answer is 42."),
        ("langchain.md", "llm openai.chat.completions"),
        ("openai-agents.md", "The answer is 42."),
    ],
)
def test_the_example_of_a_page_runs(page: str, prints: str, service: Service, tmp_path: Path) -> None:
    base = f"{service.url}/v1"
    printed = run(examples(page, "python agents"), tmp_path, OPENAI_BASE_URL=base, OPENAI_API_BASE=base)
    assert prints in printed
    (row,) = rolltrace.open(tmp_path / "store").trajectories().rows()
    assert (row["project"], row["sample_index"], row["turns"]) == ("math", 7, 1)


def test_the_example_of_the_proxy_runs(service: Service, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    with proxying(service.url, tmp_path / "store", "--project", "math", "--experiment", "grpo") as address:
        run(examples("proxy.md", "python proxy"), tmp_path, ROLLTRACE_PROXY=address)
    (row,) = rolltrace.open(tmp_path / "store").trajectories().rows()
    assert (row["sample_index"], row["turns"], row["reward"]) == (7, 1, 1.0)
