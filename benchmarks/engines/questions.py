"""Twenty questions about the store of the demo, after those of docs/howto/cookbook.md, in SQL that every engine takes.

Lists and JSON are spelled differently everywhere; a `Spelling` says how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Spelling(NamedTuple):
    """What an engine calls its functions on lists and JSON, as templates."""

    contains: str
    json_number: str
    json_text: str
    length: str
    mean: str
    minimum: str
    total: str


class Question(NamedTuple):
    """One question."""

    title: str
    sql: Callable[[Spelling], str]


SPELLINGS = {
    "duckdb": Spelling(
        contains="list_contains({0}, {1})",
        json_number="CAST(json_extract_string({0}, '$.{1}') AS DOUBLE)",
        json_text="json_extract_string({0}, '$.{1}')",
        length="len({0})",
        mean="list_avg({0})",
        minimum="list_min({0})",
        total="list_sum({0})",
    ),
    "clickhouse": Spelling(
        contains="has({0}, {1})",
        json_number="JSONExtractFloat(assumeNotNull({0}), '{1}')",
        json_text="JSONExtractString(assumeNotNull({0}), '{1}')",
        length="length({0})",
        mean="arrayAvg({0})",
        minimum="arrayMin({0})",
        total="arraySum({0})",
    ),
    "spark": Spelling(
        contains="array_contains({0}, {1})",
        json_number="CAST(get_json_object({0}, '$.{1}') AS DOUBLE)",
        json_text="get_json_object({0}, '$.{1}')",
        length="size({0})",
        mean="aggregate({0}, CAST(0 AS DOUBLE), (a, x) -> a + x, a -> a / size({0}))",
        minimum="array_min({0})",
        total="aggregate({0}, CAST(0 AS DOUBLE), (a, x) -> a + x)",
    ),
    # benchmarks/engines/frames.py has read the JSON and summed up the lists: its SQL cannot.
    "polars": Spelling(
        contains="array_contains({0}, {1})",
        json_number="CAST({0} ->> '{1}' AS DOUBLE)",
        json_text="{0} ->> '{1}'",
        length="{0}_length",
        mean="{0}_mean",
        minimum="{0}_min",
        total="{0}_total",
    ),
}

_TRAINING = "not validate and not superseded"

QUESTIONS = (
    Question(
        "Does the model get better, or only its reward?",
        lambda _: """
            select step, avg(case when not validate then reward end) as training,
                avg(case when validate then reward end) as validation
            from trajectories where not superseded and step % 5 = 0 group by step""",
    ),
    Question(
        "What are the chances that an attempt succeeds?",
        lambda _: f"""
            select step, avg(case when reward > 0.9 then 1 else 0 end) as pass_at_1
            from trajectories where {_TRAINING} group by step""",
    ),
    Question(
        "Which prompts got harder to solve?",
        lambda engine: f"""
            select t.sample_index as sample_index,
                avg(case when t.step between 16 and 23
                    then {engine.json_number.format("s.terms", "correct")} end) as before,
                avg(case when t.step > 23 then {engine.json_number.format("s.terms", "correct")} end) as after
            from trajectories t join latest_scores s on t.trajectory_id = s.trajectory_id
            where s.name = 'reward' and not t.validate and not t.superseded group by t.sample_index""",
    ),
    Question(
        "Which prompts teach nothing?",
        lambda _: f"""
            select step, count(*) as groups, sum(case when zero_variance then 1 else 0 end) as flat,
                sum(case when zero_variance and max >= 1 then 1 else 0 end) as flat_solved
            from groups where {_TRAINING} group by step""",
    ),
    Question(
        "What kind of prompt is hard?",
        lambda engine: f"""
            select {engine.json_text.format("tags", "level")} as level, count(*) as rollouts, avg(reward) as reward,
                avg(turns) as turns, sum(tool_errors) as tool_errors
            from trajectories where {_TRAINING} and step <= 15 group by {engine.json_text.format("tags", "level")}""",
    ),
    Question(
        "How does one prompt change over the steps?",
        lambda _: """
            select step, size, mean, std, max from groups
            where sample_index = '8' and not validate and not superseded""",
    ),
    Question(
        "Which of its siblings is best, which worst?",
        lambda _: f"select step, sample_index, best, worst from groups where {_TRAINING} and step % 10 = 0",
    ),
    Question(
        "Which term of the reward rises?",
        lambda engine: f"""
            select t.step as step, avg({engine.json_number.format("s.terms", "correct")}) as correct,
                avg({engine.json_number.format("s.terms", "verified")}) as verified
            from trajectories t join latest_scores s on t.trajectory_id = s.trajectory_id
            where s.name = 'reward' and not t.validate and not t.superseded group by t.step""",
    ),
    Question(
        "What does the hack look like?",
        lambda _: """
            select step, count(distinct trajectory_id) as rollouts from spans
            where kind = 'llm' and response_text like '%verified verified%' group by step""",
    ),
    Question(
        "Which tool fails?",
        lambda _: """
            select name, count(*) as calls, sum(case when status = 'error' then 1 else 0 end) as failed,
                count(distinct error) as errors
            from spans where kind = 'tool' and not validate group by name""",
    ),
    Question(
        "What does a failed tool call cost?",
        lambda _: f"""
            select tool_errors, count(*) as rollouts, avg(reward) as reward, avg(turns) as turns
            from trajectories where {_TRAINING} and status = 'ok' group by tool_errors""",
    ),
    Question(
        "What was truncated?",
        lambda engine: f"""
            select step, sum(case when {engine.contains.format("flags", "'cut_by_length'")} then 1 else 0 end) as cut,
                avg(case when {engine.contains.format("flags", "'cut_by_length'")} then reward end) as reward_if_cut
            from trajectories where {_TRAINING} group by step""",
    ),
    Question(
        "Do responses get longer?",
        lambda _: f"""
            select step, avg(response_tokens) as mean, max(response_tokens) as longest, max(prompt_tokens) as prompt
            from trajectories where {_TRAINING} group by step""",
    ),
    Question(
        "In which turns was the model least sure?",
        lambda engine: f"""
            select op_id, cast({engine.minimum.format("logprobs")} as double) as least from spans
            where kind = 'llm' and not validate and {engine.length.format("logprobs")} > 0
                and {engine.minimum.format("logprobs")} < -9""",
    ),
    Question(
        "Does the policy collapse?",
        lambda engine: f"""
            select step, avg({engine.mean.format("logprobs")}) as mean_logprob from spans
            where kind = 'llm' and not validate and {engine.length.format("logprobs")} > 0 group by step""",
    ),
    Question(
        "What was not trained, and why?",
        lambda _: f"""
            select fate, fate_reason, count(*) as rollouts, avg(reward) as reward
            from trajectories where {_TRAINING} group by fate, fate_reason""",
    ),
    Question(
        "How old were the weights?",
        lambda _: f"""
            select staleness, count(*) as rollouts,
                sum(case when policy_version_min <> policy_version_max then 1 else 0 end) as mixed,
                avg(abs(advantage)) as mean_abs_advantage
            from trajectories where {_TRAINING} and staleness is not null group by staleness""",
    ),
    Question(
        "Which tokens were trained on?",
        lambda engine: f"""
            select step, avg({engine.length.format("response_mask")}) as tokens,
                avg({engine.total.format("response_mask")}) as trained
            from spans where name = 'agent_loop' and not validate and {engine.length.format("response_mask")} > 0
            group by step""",
    ),
    Question(
        "Which pairs would make good preference data?",
        lambda _: f"""
            select step, sample_index, max as chosen_reward, min as rejected_reward, spread from groups
            where {_TRAINING} and spread >= 1""",
    ),
    Question(
        "How did rollouts end?",
        lambda _: """
            select status, fate, count(*) as rollouts, min(step) as step from trajectories group by status, fate""",
    ),
)  # fmt: skip
