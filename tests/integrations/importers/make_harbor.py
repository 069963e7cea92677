"""A job of Harbor's with two trials, for which its own agents convert sessions of Codex and of Claude Code to ATIF.

    python make_harbor.py SAMPLES JOB

A whole trial would need containers: the reward, which the tests of a task write, is written here.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from harbor.agents.installed.claude_code import ClaudeCode
from harbor.agents.installed.codex import Codex
from harbor.models.agent.context import AgentContext

if __name__ == "__main__":
    samples, job = Path(sys.argv[1]), Path(sys.argv[2])
    for agent, sample, sessions, reward in (
        (Codex, "codex", "sessions/2026/11/17", "1"),
        (ClaudeCode, "claude_code", "sessions/projects/app", "0.5"),
    ):
        trial = job / f"sums__{agent.name()}"
        shutil.copytree(samples / sample, trial / "agent" / sessions)
        agent(logs_dir=trial / "agent", model_name="fake").populate_context_post_run(AgentContext())
        (trial / "verifier").mkdir()
        (trial / "verifier" / "reward.txt").write_text(reward)
