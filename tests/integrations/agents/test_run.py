"""`rolltrace run`: agents of any SDK are traced, with the programs that they start, and nothing in them is changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import rolltrace
from tests.integrations.agents.service import ANSWER, Service

AGENT = """
import subprocess, sys
from openai import OpenAI

chat = OpenAI(base_url=sys.argv[1], api_key="x").chat.completions
messages = [{"role": "user", "content": f"hi {len(sys.argv)}"}]
for _ in range(2):
    reply = chat.create(model="m", messages=messages).choices[0].message
    messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": "go on"}]
if len(sys.argv) == 2:
    subprocess.run([sys.executable, __file__, sys.argv[1], "child"], check=True)
print(reply.content)
"""


def test_an_agent_and_the_agents_that_it_starts_are_traced_without_a_change(service: Service, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(AGENT)
    ran = subprocess.run(
        [sys.executable, "-m", "rolltrace", "run", "--project", "p", "agent.py", f"{service.url}/v1"],
        cwd=tmp_path, env={**os.environ, "ROLLTRACE_STORE": str(tmp_path / "store")},
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{ANSWER}\n" * 2, "")
    rows = rolltrace.open(tmp_path / "store").trajectories().rows()
    assert [row["turns"] for row in rows] == [2, 2]
    assert {row["experiment"] for row in rows} == {"agent"}


def test_a_program_that_uses_no_sdk_loads_nothing(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import sys; print('rolltrace' in sys.modules)")
    ran = subprocess.run(
        [sys.executable, "-m", "rolltrace", "run", "plain.py"],
        cwd=tmp_path, capture_output=True, text=True, timeout=110, check=True,
    )  # fmt: skip
    assert ran.stdout == "False\n"
