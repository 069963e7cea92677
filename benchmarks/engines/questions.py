"""Twenty questions about the store of the demo, after those of docs/howto/cookbook.md.

Each is asked twice: of rolltrace through its views, and of other engines in SQL over the plain tables, whose steps are
settled. Lists, maps and JSON are spelled differently everywhere; a `Spelling` says how.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

_GROUP = "project, experiment, step, sample_index, validate, run"
_OLDEST = "rollout_n, start_ns, trajectory_id"
GROUPS = f"""
with ranked as (
    select *, row_number() over (partition by {_GROUP} order by reward desc, {_OLDEST}) as from_best,
        row_number() over (partition by {_GROUP} order by reward, {_OLDEST}) as from_worst
    from trajectories where sample_index is not null and not branch
),
rollout_groups as (
    select {_GROUP}, count(*) as rollouts, avg(reward) as mean, stddev_pop(reward) as deviation,
        min(reward) as lowest, max(reward) as highest, max(reward) - min(reward) as spread,
        max(case when from_best = 1 then trajectory_id end) as best,
        max(case when from_worst = 1 then trajectory_id end) as worst,
        count(reward) > 1 and min(reward) = max(reward) as zero_variance
    from ranked where not superseded group by {_GROUP}
)
"""
"""All rollouts of a sample in a step together, as a CTE."""


class Spelling(NamedTuple):
    """What an engine calls its functions on lists, maps and JSON, as templates."""

    contains: str
    json_text: str
    term: str
    length: str
    mean: str
    minimum: str
    total: str
    groups: str = GROUPS
    """The CTE; empty where the groups are a table."""


class Question(NamedTuple):
    """One question."""

    title: str
    ours: str
    """Over the views of rolltrace."""
    plain: Callable[[Spelling], str]
    """Over the plain tables."""


SPELLINGS = {
    "duckdb": Spelling(
        contains="list_contains({0}, {1})",
        json_text="json_extract_string({0}, '$.{1}')",
        term="terms['{0}']",
        length="len({0})",
        mean="list_avg({0})",
        minimum="list_min({0})",
        total="list_sum({0})",
    ),
    "clickhouse": Spelling(
        contains="has({0}, {1})",
        json_text="JSONExtractString(assumeNotNull({0}), '{1}')",
        term="if(mapContains(terms, '{0}'), terms['{0}'], NULL)",
        length="length({0})",
        mean="arrayAvg(x -> assumeNotNull(x), {0})",
        minimum="arrayMin({0})",
        total="arraySum(x -> assumeNotNull(x), {0})",
    ),
    "spark": Spelling(
        contains="array_contains({0}, {1})",
        json_text="get_json_object({0}, '$.{1}')",
        term="terms['{0}']",
        length="size({0})",
        mean="aggregate({0}, CAST(0 AS DOUBLE), (a, x) -> a + x, a -> a / size({0}))",
        minimum="array_min({0})",
        total="aggregate({0}, CAST(0 AS DOUBLE), (a, x) -> a + x)",
    ),
    # benchmarks/engines/frames.py has read maps and JSON, and summed up lists: the SQL of Polars cannot.
    "polars": Spelling(
        contains="array_contains({0}, {1})",
        json_text="{0}_{1}",
        term="term_{0}",
        length="{0}_length",
        mean="{0}_mean",
        minimum="{0}_min",
        total="{0}_total",
        groups="",
    ),
}

_TRAINING = "not validate and not superseded"
_CALLS = "ops o join tokens t on o.trajectory_id = t.trajectory_id and o.op_id = t.op_id"


def _same(title: str, sql: str) -> Question:
    """A question that is spelled the same everywhere."""
    return Question(title, sql, lambda _: sql)


QUESTIONS = (
    _same(
        "Does the model get better, or only its reward?",
        """select step, avg(case when not validate then reward end) as training,
                avg(case when validate then reward end) as validation
            from trajectories where not superseded and step % 5 = 0 group by step""",
    ),
    _same(
        "What are the chances that an attempt succeeds?",
        f"""select step, avg(case when reward > 0.9 then 1 else 0 end) as pass_at_1
            from trajectories where {_TRAINING} group by step""",
    ),
    Question(
        "Which prompts got harder to solve?",
        f"""select sample_index,
                avg(case when step between 16 and 23 then terms['correct'] end) as before,
                avg(case when step > 23 then terms['correct'] end) as after
            from trajectories where {_TRAINING} group by sample_index""",
        lambda engine: f"""
            select sample_index,
                avg(case when step between 16 and 23 then {engine.term.format("correct")} end) as before,
                avg(case when step > 23 then {engine.term.format("correct")} end) as after
            from trajectories where {_TRAINING} group by sample_index""",
    ),
    Question(
        "Which prompts teach nothing?",
        f"""select step, count(*) as groups, sum(case when zero_variance then 1 else 0 end) as flat,
                sum(case when zero_variance and max >= 1 then 1 else 0 end) as flat_solved
            from groups where {_TRAINING} group by step""",
        lambda engine: f"""{engine.groups}
            select step, count(*) as n, sum(case when zero_variance then 1 else 0 end) as flat,
                sum(case when zero_variance and highest >= 1 then 1 else 0 end) as flat_solved
            from rollout_groups where not validate group by step""",
    ),
    Question(
        "What kind of prompt is hard?",
        f"""select json_extract_string(tags, '$.level') as level, count(*) as rollouts, avg(reward) as reward,
                avg(turns) as turns, sum(tool_errors) as tool_errors
            from trajectories where {_TRAINING} and step <= 15 group by level""",
        lambda engine: f"""
            select {engine.json_text.format("tags", "level")} as level, count(*) as rollouts, avg(reward) as reward,
                avg(turns) as turns, sum(tool_errors) as tool_errors
            from trajectories where {_TRAINING} and step <= 15 group by {engine.json_text.format("tags", "level")}""",
    ),
    Question(
        "How does one prompt change over the steps?",
        f"select step, size, mean, std, max from groups where sample_index = '8' and {_TRAINING}",
        lambda engine: f"""{engine.groups}
            select step, rollouts, mean, deviation, highest from rollout_groups
            where sample_index = '8' and not validate""",
    ),
    Question(
        "Which of its siblings is best, which worst?",
        f"select step, sample_index, best, worst from groups where {_TRAINING} and step % 10 = 0",
        lambda engine: f"""{engine.groups}
            select step, sample_index, best, worst from rollout_groups where not validate and step % 10 = 0""",
    ),
    Question(
        "Which term of the reward rises?",
        f"""select step, avg(terms['correct']) as correct, avg(terms['verified']) as verified
            from trajectories where {_TRAINING} group by step""",
        lambda engine: f"""
            select step, avg({engine.term.format("correct")}) as correct,
                avg({engine.term.format("verified")}) as verified
            from trajectories where {_TRAINING} group by step""",
    ),
    Question(
        "What does the hack look like?",
        """select step, count(distinct trajectory_id) as rollouts from spans
            where kind = 'llm' and response_text like '%verified verified%' group by step""",
        lambda _: """
            select step, count(distinct trajectory_id) as rollouts from messages
            where author = 'policy' and kind = 'message' and text like '%verified verified%' group by step""",
    ),
    _same(
        "Which tool fails?",
        """select name, count(*) as calls, sum(case when status = 'error' then 1 else 0 end) as failed,
                count(distinct error) as errors
            from ops where kind = 'tool' and not validate group by name""",
    ),
    _same(
        "What does a failed tool call cost?",
        f"""select tool_errors, count(*) as rollouts, avg(reward) as reward, avg(turns) as turns
            from trajectories where {_TRAINING} and status = 'ok' group by tool_errors""",
    ),
    Question(
        "What was truncated?",
        f"""select step, sum(case when list_contains(flags, 'cut_by_length') then 1 else 0 end) as cut,
                avg(case when list_contains(flags, 'cut_by_length') then reward end) as reward_if_cut
            from trajectories where {_TRAINING} group by step""",
        lambda engine: f"""
            select step, sum(case when {engine.contains.format("flags", "'cut_by_length'")} then 1 else 0 end) as cut,
                avg(case when {engine.contains.format("flags", "'cut_by_length'")} then reward end) as reward_if_cut
            from trajectories where {_TRAINING} group by step""",
    ),
    _same(
        "Do responses get longer?",
        f"""select step, avg(response_tokens) as mean, max(response_tokens) as longest, max(prompt_tokens) as prompt
            from trajectories where {_TRAINING} group by step""",
    ),
    Question(
        "In which turns was the model least sure?",
        """select op_id, cast(list_min(logprobs) as double) as least from spans
            where kind = 'llm' and not validate and len(logprobs) > 0 and list_min(logprobs) < -9""",
        lambda engine: f"""
            select t.op_id as op_id, cast({engine.minimum.format("logprobs")} as double) as least from {_CALLS}
            where o.kind = 'llm' and not o.validate and {engine.length.format("logprobs")} > 0
                and {engine.minimum.format("logprobs")} < -9""",
    ),
    Question(
        "Does the policy collapse?",
        """select step, avg(list_avg(logprobs)) as mean_logprob from spans
            where kind = 'llm' and not validate and len(logprobs) > 0 group by step""",
        lambda engine: f"""
            select o.step as step, avg({engine.mean.format("logprobs")}) as mean_logprob from {_CALLS}
            where o.kind = 'llm' and not o.validate and {engine.length.format("logprobs")} > 0 group by o.step""",
    ),
    _same(
        "What was not trained, and why?",
        f"""select fate, fate_reason, count(*) as rollouts, avg(reward) as reward
            from trajectories where {_TRAINING} group by fate, fate_reason""",
    ),
    _same(
        "How old were the weights?",
        f"""select staleness, count(*) as rollouts,
                sum(case when policy_version_min <> policy_version_max then 1 else 0 end) as mixed,
                avg(abs(advantage)) as mean_abs_advantage
            from trajectories where {_TRAINING} and staleness is not null group by staleness""",
    ),
    Question(
        "Which tokens were trained on?",
        """select step, avg(len(response_mask)) as tokens, avg(list_sum(response_mask)) as trained
            from spans where name = 'agent_loop' and not validate and len(response_mask) > 0 group by step""",
        lambda engine: f"""
            select o.step as step, avg({engine.length.format("mask")}) as tokens,
                avg({engine.total.format("mask")}) as trained
            from {_CALLS} where o.name = 'agent_loop' and not o.validate and {engine.length.format("mask")} > 0
            group by o.step""",
    ),
    Question(
        "Which pairs would make good preference data?",
        f"""select step, sample_index, max as chosen_reward, min as rejected_reward, spread from groups
            where {_TRAINING} and spread >= 1""",
        lambda engine: f"""{engine.groups}
            select step, sample_index, highest as chosen_reward, lowest as rejected_reward, spread
            from rollout_groups where not validate and spread >= 1""",
    ),
    _same(
        "How did rollouts end?",
        "select status, fate, count(*) as rollouts, min(step) as step from trajectories group by status, fate",
    ),
)  # fmt: skip
