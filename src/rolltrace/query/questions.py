"""The SQL of questions that are always the same, over the views of `query.views`."""

from rolltrace.query.group_views import GROUP_KEY, ZERO_VARIANCE

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

STEPS = f"""
SELECT t.project, t.experiment, t.step, t.validate,
    sum(t.trajectories)::BIGINT AS trajectories,
    count(t.sample_index) AS samples,
    sum(t.errors)::BIGINT AS errors,
    sum(t.running)::BIGINT AS running,
    sum(t.reward_sum) / nullif(sum(t.scored), 0) AS reward_mean,
    min(t.reward_min) AS reward_min,
    max(t.reward_max) AS reward_max,
    sum(t.scored)::BIGINT AS scored,
    CASE WHEN sum(t.scored) = 0 OR sum(t.judged) > 0 THEN sum(t.passed)::BIGINT END AS passed,
    CASE WHEN sum(t.judged) > 0 THEN sum(t.passed) / sum(t.scored) END AS pass_rate,
    count(*) FILTER (t.zero_variance) / nullif(count(*) FILTER (t.scored > 1 AND t.sample_index IS NOT NULL), 0)
        AS zero_variance_share,
    sum(t.turns) / sum(t.trajectories) AS turns_mean,
    min(t.start_ns) AS start_ns,
    max(t.end_ns) AS end_ns,
    t.run,
    {{pass_rule}} AS pass_rule
FROM (
    SELECT {", ".join(GROUP_KEY)}, superseded, count(*) AS trajectories,
        count(*) FILTER (status = 'error') AS errors, count(*) FILTER (status = 'running') AS running,
        count(reward) AS scored, sum(reward) AS reward_sum, min(reward) AS reward_min, max(reward) AS reward_max,
        count(*) FILTER (_passed) AS passed, count(_passed) AS judged, sum(turns) AS turns,
        min(t.start_ns) AS start_ns, max(t.start_ns) AS newest_ns, max(t.end_ns) AS end_ns,
        sample_index IS NOT NULL AND {ZERO_VARIANCE} AS zero_variance
    FROM _judged t WHERE {{where}} GROUP BY {", ".join(GROUP_KEY)}, superseded
) t
GROUP BY t.project, t.experiment, t.step, t.validate, t.run
ORDER BY max(max(t.newest_ns)) OVER (PARTITION BY t.project, t.experiment), t.project, t.experiment,
    t.step NULLS LAST, t.validate, min(t.start_ns)
"""
"""By groups first, which tell how many samples there are and which of them teach nothing."""

LIVE = """
SELECT t.trajectory_id, t.project, t.experiment, t.step, t.sample_index, t.rollout_n, t.validate, t.name,
    greatest(? - t.start_ns, 0) / 1e9 AS age_s,
    o.current_op,
    CASE WHEN o.op_start_ns IS NOT NULL THEN greatest(? - o.op_start_ns, 0) / 1e9 END AS op_age_s,
    t.turns, t.tool_calls, t.worker, t._is_int
FROM _listing t LEFT JOIN (
    SELECT trajectory_id, arg_max(name, start_ns) AS current_op, max(start_ns) AS op_start_ns
    FROM ops WHERE status = 'running' GROUP BY trajectory_id
) o USING (trajectory_id)
WHERE t.status = 'running' ORDER BY t.start_ns
"""

LOSSES = """
SELECT project, experiment, step, worker, reason, sum(count)::BIGINT AS count
FROM losses GROUP BY ALL ORDER BY project, experiment, step NULLS LAST, reason, worker
"""

UNMATCHED_SCORES = """
SELECT trajectory_id, project, experiment, step, sample_index, rollout_n, validate, name, value, label, reason, terms,
    time_ns, worker, run, sample_number IS NOT NULL AS _is_int
FROM unmatched_scores ORDER BY time_ns, worker
"""

BY_CHOICE = frozenset({"sample_limit", "pruned_payload", "pruned_whole", "retention"})
"""Reasons that somebody chose: a limit of samples, `rolltrace prune`, a retention policy."""

LOST = f"(SELECT * FROM losses WHERE reason NOT IN ({', '.join(repr(each) for each in sorted(BY_CHOICE))}))"
"""The rows of `losses` that nobody asked for, to be selected from."""
