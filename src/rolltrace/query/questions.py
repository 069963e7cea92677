"""The SQL of questions that are always the same, over the views of `query.views`."""

EXPERIMENTS = """
SELECT project, experiment,
    coalesce(sum(trajectories) FILTER (NOT superseded), 0)::BIGINT AS trajectories,
    count(DISTINCT step) AS steps,
    max(step) AS last_step,
    sum(running)::BIGINT AS running,
    min(start_ns) AS start_ns,
    max(last_ns) AS end_ns,
    count(DISTINCT coalesce(run, '')) AS runs,
    coalesce(sum(trajectories) FILTER (superseded), 0)::BIGINT AS superseded
FROM _steps GROUP BY project, experiment ORDER BY start_ns, project, experiment
"""

RUNS = """
SELECT project, experiment, run,
    sum(trajectories)::BIGINT AS trajectories,
    count(DISTINCT step) AS steps,
    min(step) AS first_step,
    max(step) AS last_step,
    sum(running)::BIGINT AS running,
    coalesce(sum(trajectories) FILTER (superseded), 0)::BIGINT AS superseded,
    min(start_ns) AS start_ns,
    max(last_ns) AS end_ns
FROM _steps t WHERE {where} GROUP BY project, experiment, run ORDER BY project, experiment, start_ns
"""

STEPS = """
SELECT t.project, t.experiment, t.step, t.validate,
    sum(trajectories)::BIGINT AS trajectories,
    sum(samples)::BIGINT AS samples,
    sum(errors)::BIGINT AS errors,
    sum(running)::BIGINT AS running,
    sum(reward_sum) / nullif(sum(t.scored), 0) AS reward_mean,
    min(reward_min) AS reward_min,
    max(reward_max) AS reward_max,
    sum(scored)::BIGINT AS scored,
    sum(passed)::BIGINT AS passed,
    sum(t.passed) / nullif(sum(t.scored), 0) AS pass_rate,
    sum(flat_groups) / nullif(sum(rated_groups), 0) AS zero_variance_share,
    sum(turns) / sum(trajectories) AS turns_mean,
    min(start_ns) AS start_ns,
    max(end_ns) AS end_ns,
    t.run,
    any_value(t.pass_rule) AS pass_rule
FROM _judged_steps t WHERE {where} GROUP BY t.project, t.experiment, t.step, t.validate, t.run
ORDER BY max(max(t.newest_ns)) OVER (PARTITION BY t.project, t.experiment), t.project, t.experiment,
    t.step NULLS LAST, t.validate, min(t.start_ns)
"""

LIVE = """
SELECT t.trajectory_id, t.project, t.experiment, t.step, t.sample_index, t.rollout_n, t.validate, t.name,
    (? - t.start_ns) / 1e9 AS age_s,
    o.current_op,
    (? - o.op_start_ns) / 1e9 AS op_age_s,
    t.turns, t.tool_calls, t.worker, t._is_int
FROM _listing t LEFT JOIN (
    SELECT trajectory_id, arg_max(name, start_ns) AS current_op, max(start_ns) AS op_start_ns
    FROM spans WHERE status = 'running' GROUP BY trajectory_id
) o USING (trajectory_id)
WHERE t.status = 'running' ORDER BY t.start_ns
"""

LOSSES = """
SELECT project, experiment, step, worker, reason, sum(count)::BIGINT AS count
FROM losses GROUP BY ALL ORDER BY project, experiment, step NULLS LAST, reason, worker
"""

UNMATCHED_SCORES = """
SELECT trajectory_id, project, experiment, step, sample_index, rollout_n, validate, name, value, label, reason, terms,
    time_ns, worker, run, sample_is_int AS _is_int
FROM unmatched_scores ORDER BY time_ns, worker
"""

BY_CHOICE = frozenset({"sample_limit", "pruned_payload", "pruned_whole", "retention"})
"""Reasons that somebody chose: a limit of samples, `rolltrace prune`, a retention policy."""

LOST = f"(SELECT * FROM losses WHERE reason NOT IN ({', '.join(repr(each) for each in sorted(BY_CHOICE))}))"
"""The rows of `losses` that nobody asked for, to be selected from."""
