"""Environments of users' own, games with several players, and training without `install()`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tinker
from tinker_cookbook.recipes.multiplayer_rl.text_arena.env import TwoPlayerEnvGroupBuilder
from tinker_cookbook.rl.rollouts import do_group_rollout, do_single_rollout
from tinker_cookbook.rl.types import Env, StepResult

import rolltrace
from rolltrace.errors import ConfigError
from rolltrace.integrations.tinker import batch, traced
from rolltrace.query import Trajectory

from .compared import differences
from .native import told_by_summary
from .service import config
from .stand_ins import END, RENDERER, Scripted, ids
from .test_training import read

Read = Callable[[], list[Trajectory]]


class Board(Env):
    """An environment of tokens alone: no renderer, no messages."""

    def __init__(self) -> None:
        self.board = ["."] * 3

    async def initial_observation(self) -> Any:
        return tinker.ModelInput.from_ints(ids("".join(self.board))), [END]

    async def step(self, action: Any, *, extra: Any = None) -> StepResult:
        self.board[len(action) % 3] = "x"
        done = "." not in self.board
        return StepResult(float(done), done, tinker.ModelInput.from_ints(ids("".join(self.board))), [END])


async def test_functions_of_the_user_say_what_is_recorded(recorded: Read) -> None:
    env = rolltrace.trace_env(
        Board(),
        state=lambda env: {"board": env.board},
        prompt=lambda env: [{"role": "user", "content": "".join(env.board)}],
        response=lambda env, action: {"role": "assistant", "content": f"{len(action) % 3}"},
        reward_data=lambda env, result: {"full": result.reward},
        extra=lambda env, result: {"after": "".join(env.board)},
    )
    native = await do_single_rollout(Scripted("a", "bb", "ccc"), env)
    (found,) = recorded()
    assert differences(found, native) == []
    assert [step["trace"]["prompt"][0]["content"] for step in found.transitions] == ["...", ".x.", ".xx"]
    assert [step["trace"]["policy_response"]["content"] for step in found.transitions] == ["1", "2", "0"]
    assert [step["trace"]["env_state"]["board"] for step in found.transitions][-1] == [".", "x", "x"]
    assert [step["trace"]["reward_data"]["full"] for step in found.transitions] == [0.0, 0.0, 1.0]
    assert [step["trace"]["extra"]["after"] for step in found.transitions] == [".x.", ".xx", "xxx"]


async def test_an_environment_of_tokens_alone_is_recorded_with_its_tokens(recorded: Read) -> None:
    native = await do_single_rollout(Scripted("a", "bb", "ccc"), Board())
    (found,) = recorded()
    assert differences(found, native) == []


async def test_both_players_of_a_game_are_rollouts_of_their_group(recorded: Read) -> None:
    builder = TwoPlayerEnvGroupBuilder("TicTacToe-v0", RENDERER, num_envs=2, self_play=True)
    moves = Scripted(*(f"[{move}]" for move in (0, 3, 1, 4, 2)))
    with batch(4, [builder, builder]):  # one builder at two positions
        first = await do_group_rollout(builder, moves)
        second = await do_group_rollout(builder, Scripted(*(f"[{move}]" for move in (0, 3, 1, 4, 2))))
    found = {(each.sample_index, each.rollout_n): each for each in recorded()}
    assert set(found) == {(0, 0), (0, 1), (1, 0), (1, 1)}
    for sample, group in enumerate((first, second)):
        for number, native in enumerate(group.trajectories_G):
            assert differences(found[sample, number], native) == []
            assert found[sample, number].reward == group.get_total_rewards()[number]
    assert found[0, 0].transitions[0]["trace"]["env_state"] == {"player_id": 0, "self_play": True, "game_done": False}


def test_traced_and_install_are_not_used_together(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="twice"):
        traced(config(str(tmp_path)))


_SCRIPT = """
import asyncio, logging, sys
from tinker_cookbook.rl import train
import rolltrace
from rolltrace.integrations.tinker import traced
from tests.integrations.tinker.service import config
logging.disable(logging.INFO)
rolltrace.init("tinker", "traced", store=sys.argv[1], drain="off", quiet=True)
asyncio.run(train.main(traced(config(sys.argv[2]))))
rolltrace.shutdown()
"""


def test_a_traced_config_records_all_that_environments_see(tmp_path: Path) -> None:
    store, log = tmp_path / "store", tmp_path / "log"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SCRIPT, str(store), str(log)],
        cwd=Path(__file__).parents[3],
        env={**os.environ, "ROLLTRACE_STRICT": "1"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    ran = read(store, log)
    native = {(line["iteration"], line["group_idx"], line["traj_idx"]): line for line in ran.trained}
    ours = {(each.step, each.sample_index, each.rollout_n): each for each in ran.training}
    assert ours.keys() == native.keys()
    assert len(ours) == len(ran.training)
    for key, line in native.items():
        found = ours[key]
        assert found.reward == line["total_reward"], told_by_summary(line)
        assert [step["reward"] for step in found.transitions] == [step["reward"] for step in line["steps"]]
        assert [op.response_tokens for op in found.walk() if op.kind == "llm"] == [
            step["ac_len"] for step in line["steps"]
        ]
        assert all(step["trace"]["prompt"] and step["trace"]["policy_response"] for step in found.transitions)
    assert len(ran.validation) == len(ran.evaluated)
