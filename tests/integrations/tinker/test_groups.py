"""Groups: their rewards and comparisons, retries, rewards that are changed later, rollouts of a recipe's own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tinker_cookbook.completers import TokensWithLogprobs
from tinker_cookbook.rl import rollouts
from tinker_cookbook.rl.problem_env import ProblemGroupBuilder
from tinker_cookbook.rl.rollout_limits import RolloutLimits, TerminationRewardPolicy
from tinker_cookbook.rl.rollout_runner import RolloutHooks, run_rollout
from tinker_cookbook.rl.rollout_strategy import MinViableGroup, RetryOnFailure
from tinker_cookbook.rl.rollouts import do_group_rollout, do_group_rollout_and_filter_constant_reward
from tinker_cookbook.rl.types import EnvGroupBuilder, Trajectory, TrajectoryGroup, Transition

import rolltrace
from rolltrace.integrations.tinker import batch
from rolltrace.integrations.tinker.rollout import MARK
from rolltrace.query import Store, open_store
from rolltrace.query import Trajectory as Recorded

from .compared import differences
from .kinds import AddEnv, Appending, agent, message_env
from .service import MessageGroup, Sampling, preferences
from .stand_ins import END, RENDERER, Scripted, ids

Read = Callable[[], list[Recorded]]


def by_trajectory(read: Read, group: TrajectoryGroup) -> list[Recorded]:
    """What was recorded of each trajectory of a group, in its order."""
    recorded = {each.trajectory_id: each for each in read()}
    return [recorded[trajectory.__dict__[MARK]["id"]] for trajectory in group.trajectories_G]


async def test_preferences_go_to_the_trajectory_that_they_are_about(recorded: Read) -> None:
    """Two winners that tie, a loser, and a reply without an end, which costs a point."""
    group = await do_group_rollout(preferences(4), Scripted("long one" + END, "a" + END, "long two" + END, "no end"))
    found = by_trajectory(recorded, group)
    assert [each.reward for each in found] == group.get_total_rewards()
    assert [each.transitions[-1]["trace"]["reward_data"] for each in found] == [
        {**metrics, "group_reward": final} for metrics, final in zip(group.metrics_G, group.final_rewards_G)
    ]
    said = [each.transitions[-1]["trace"]["policy_response"]["content"] for each in found]
    assert said == ["long one", "a", "long two", "no end"]
    assert [each.transitions[-1]["trace"]["extra"]["termination"] for each in found] == [
        "stop_sequence",
        "stop_sequence",
        "stop_sequence",
        "malformed",
    ]
    assert [differences(each, native) for each, native in zip(found, group.trajectories_G)] == [[]] * 4


async def test_comparisons_belong_to_the_group_and_to_no_rollout(recorded: Read, store: Callable[[], Store]) -> None:
    builder = preferences(3)
    with batch(5, [MessageGroup(1), builder]):
        await do_group_rollout(builder, Scripted("a" + END, "bb" + END, "ccc" + END))
    assert [(each.step, each.sample_index, each.rollout_n) for each in recorded()] == [(5, 1, 0), (5, 1, 1), (5, 1, 2)]
    assert [[op.name for op in each.walk()] for each in recorded()] == [["policy"]] * 3
    with store() as opened:
        (group,) = opened.group_records(5, 1, experiment=recorded()[0].experiment)
    assert [(op.name, op.kind) for op in group.walk()] == [("comparison", "reward")] * 6
    assert [op.outputs for op in group.walk()] == [1.0, 1.0, -1.0, 1.0, -1.0, -1.0]


class Debate(MessageGroup):
    """Judged as a group, with more than one transition in each trajectory."""

    async def compute_group_rewards(self, trajectory_group: Any, env_group: Any) -> Any:
        lengths = [sum(len(step.ac.tokens) for step in each.transitions) for each in trajectory_group]
        return [(length / max(lengths), {"length": length}) for length in lengths]


async def test_a_group_reward_goes_to_the_last_of_several_transitions(recorded: Read) -> None:
    group = await do_group_rollout(Debate(2), Scripted("a" + END, "bb" + END, "ccc" + END, "d" + END))
    for found, metrics, final in zip(by_trajectory(recorded, group), group.metrics_G, group.final_rewards_G):
        first, last = found.transitions
        assert "reward_data" not in first["trace"]
        assert last["trace"]["reward_data"] == {**metrics, "group_reward": final}
        assert found.scores[-1]["terms"] == {"steps": pytest.approx(1 / 3), "group": final}


async def test_retried_rollouts_have_numbers_and_fates_of_their_own(recorded: Read) -> None:
    builder = Debate(3, failures=2)
    group = await do_group_rollout_and_filter_constant_reward(
        Sampling(0), builder, 64, 1.0, False, strategy=RetryOnFailure(max_retries=3)
    )
    assert group is not None
    found = by_trajectory(recorded, group)
    assert [differences(each, native) for each, native in zip(found, group.trajectories_G)] == [[]] * 3
    assert [each.reward for each in found] == group.get_total_rewards()
    everything = recorded()
    assert sorted(each.rollout_n or 0 for each in everything) == [0, 1, 2, 3, 4]
    failed = [each for each in everything if each.status == "error"]
    assert [(each.fate, each.fate_reason) for each in failed] == [
        ("filtered", "the rollout failed: ConnectionError"),
        ("filtered", "the rollout failed: ConnectionError"),
    ]
    places = {
        each.trajectory_id: score["value"] for each in found for score in each.scores if score["name"] == "traj_idx"
    }
    assert [places.get(each.trajectory_id, each.rollout_n) for each in found] == [0, 1, 2]


async def test_a_group_below_its_minimum_is_left_out_as_a_whole(recorded: Read) -> None:
    builder = MessageGroup(3, failures=3)
    strategy = MinViableGroup(min_successful=3, max_retries=0)
    assert (
        await do_group_rollout_and_filter_constant_reward(Sampling(0), builder, 64, 1.0, False, strategy=strategy)
        is None
    )
    assert {each.fate_reason for each in recorded()} == {"the rollout failed: ConnectionError"}
    await do_group_rollout_and_filter_constant_reward(
        Sampling(0), MessageGroup(3, failures=1), 64, 1.0, False, strategy=strategy
    )
    reasons = [each.fate_reason for each in recorded()[3:]]
    assert sorted(map(str, reasons)) == [
        "the group failed: AllTrajectoriesFailedError",
        "the group failed: AllTrajectoriesFailedError",
        "the rollout failed: ConnectionError",
    ]


async def test_a_group_that_is_smaller_than_it_should_be_keeps_what_it_has(recorded: Read) -> None:
    group = await do_group_rollout_and_filter_constant_reward(
        Sampling(0), MessageGroup(4, failures=1), 64, 1.0, False, strategy=MinViableGroup(max_retries=0)
    )
    assert group is not None
    assert [each.reward for each in by_trajectory(recorded, group)] == group.get_total_rewards()
    assert len(recorded()) == 4


async def test_groups_with_equal_rewards_are_left_out_with_that_reason(recorded: Read) -> None:
    builder = ProblemGroupBuilder(lambda: AddEnv(1, 1), 2)
    assert await do_group_rollout_and_filter_constant_reward(Sampling(0), builder, 64, 1.0, True) is None
    assert [(each.fate, each.fate_reason, each.reward) for each in recorded()] == [
        ("filtered", "all rewards of the group are the same", 1.0)
    ] * 2


class Limited(EnvGroupBuilder):
    async def make_envs(self) -> Any:
        return [message_env(Appending(1)), message_env(Appending(2), rollout_limits=RolloutLimits(max_turns=1))]

    async def compute_group_rewards(self, trajectory_group: Any, env_group: Any) -> Any:
        return [(0.5, {}) for _ in trajectory_group]


async def test_a_reward_that_is_clamped_later_is_recorded_as_it_counts(recorded: Read) -> None:
    policy = TerminationRewardPolicy(zero_reward_on_limit=True)
    group = await do_group_rollout(Limited(), Scripted("hi" + END), termination=policy)
    found = by_trajectory(recorded, group)
    assert [each.reward for each in found] == group.get_total_rewards()
    assert found[1].reward == 0.0
    assert found[1].transitions[-1]["trace"]["reward_data"] == {"zero_reward_on_limit": 1.0, "group_reward": 0.0}


async def test_rollouts_of_a_recipes_own_are_recorded_from_the_group_that_it_returns(
    recorded: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def own(builder: Any, policy: Any, strategy: Any = None, termination: Any = None) -> TrajectoryGroup:
        prompt = RENDERER.build_generation_prompt([{"role": "user", "content": "own"}])
        made = []
        for said in ("one", "two"):
            action = TokensWithLogprobs(ids(said + END), [-0.5] * len(ids(said + END)))
            made.append(
                Trajectory([Transition(prompt, action, 0.25, True, {"m": 1.0}, {"l": said})], prompt, "completed")
            )
        return TrajectoryGroup(made, [0.0, 1.0], [{}, {"won": 1.0}])

    monkeypatch.setattr(rollouts, "do_group_rollout", own)
    group = await do_group_rollout_and_filter_constant_reward(Sampling(0), MessageGroup(2), 64, 1.0, True)
    assert group is not None
    found = by_trajectory(recorded, group)
    assert [differences(each, native) for each, native in zip(found, group.trajectories_G)] == [[], []]
    assert [(each.rollout_n, each.reward) for each in found] == [(0, 0.25), (1, 1.25)]
    assert found[0].tags["tags"] == ["message"]


async def test_a_limit_of_samples_keeps_whole_groups_and_nothing_of_the_others(
    store_folder: Path, request: pytest.FixtureRequest
) -> None:
    name, builders = request.node.name, [preferences(2), preferences(2), MessageGroup(2)]
    rolltrace.init("tinker", name, store=store_folder, drain="off", quiet=True, max_samples_per_step_per_worker=1)
    with batch(1, builders):
        for builder in builders:
            await do_group_rollout(builder, Scripted("a" + END, "bb" + END))
    rolltrace.shutdown()
    with open_store(store_folder) as store:
        rows = store.trajectories(experiment=name).rows()
        assert sorted(row["rollout_n"] for row in rows) == [0, 1]
        (kept,) = {row["sample_index"] for row in rows}
        records = [store.group_records(1, sample, experiment=name) for sample in range(3)]
    assert [len(each) for each in records] == [int(sample == kept and sample < 2) for sample in range(3)]


class Interfering(RolloutHooks):
    """Says something before the second turn, and does not let the first end stand."""

    def __init__(self) -> None:
        self.cleared = False

    async def on_turn_begin(self, state: Any) -> Any:
        return [{"role": "user", "content": "by the way"}] if state.turn_index == 1 else None

    async def on_stop_reason(self, reason: str, state: Any) -> str | None:
        first, self.cleared = not self.cleared, True
        return None if first else reason


async def test_messages_from_outside_and_ends_that_do_not_stand_are_seen(recorded: Read) -> None:
    native = await run_rollout(Scripted("stop" + END, "stop" + END), agent(), hooks=Interfering())
    (found,) = recorded()
    assert differences(found, native) == []
    assert [len(step["trace"]["prompt"]) for step in found.transitions] == [1, 3]
    assert found.transitions[1]["trace"]["prompt"][-1] == {"role": "user", "content": "by the way"}
    assert found.transitions[0]["earlier"][0]["episode_done"] is True
