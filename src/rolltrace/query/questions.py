"""The SQL of questions that are always the same, over the views of `query.views`."""

EXPERIMENTS = """
SELECT project, experiment,
    count(*) FILTER (NOT superseded) AS trajectories,
    count(DISTINCT step) AS steps,
    max(step) AS last_step,
    count(*) FILTER (status = 'running') AS running,
    min(start_ns) AS start_ns,
    max(coalesce(end_ns, start_ns)) AS end_ns,
    count(DISTINCT coalesce(run, '')) AS runs,
    count(*) FILTER (superseded) AS superseded
FROM _listing GROUP BY project, experiment ORDER BY start_ns, project, experiment
"""

RUNS = """
SELECT project, experiment, run,
    count(*) AS trajectories,
    count(DISTINCT step) AS steps,
    min(step) AS first_step,
    max(step) AS last_step,
    count(*) FILTER (status = 'running') AS running,
    count(*) FILTER (superseded) AS superseded,
    min(start_ns) AS start_ns,
    max(coalesce(end_ns, start_ns)) AS end_ns
FROM _listing t WHERE {where} GROUP BY project, experiment, run ORDER BY project, experiment, start_ns
"""

STEPS = """
SELECT t.project, t.experiment, t.step, t.validate,
    count(*) AS trajectories,
    count(DISTINCT sample_index) AS samples,
    count(*) FILTER (status = 'error') AS errors,
    count(*) FILTER (status = 'running') AS running,
    avg(reward) AS reward_mean,
    min(reward) AS reward_min,
    max(reward) AS reward_max,
    count(*) FILTER (reward > 0 AND NOT isnan(reward)) / nullif(count(reward), 0) AS pass_rate,
    any_value(g.share) AS zero_variance_share,
    avg(turns) AS turns_mean,
    min(start_ns) AS start_ns,
    max(end_ns) AS end_ns,
    t.run
FROM _listing t LEFT JOIN (
    SELECT project, experiment, step, validate, run, avg(zero_variance::INT) FILTER (scored > 1) AS share
    FROM _groups GROUP BY project, experiment, step, validate, run
) g
ON g.project = t.project AND g.experiment = t.experiment AND g.step IS NOT DISTINCT FROM t.step
    AND g.validate = t.validate AND g.run IS NOT DISTINCT FROM t.run
WHERE {where} GROUP BY t.project, t.experiment, t.step, t.validate, t.run
ORDER BY max(max(t.start_ns)) OVER (PARTITION BY t.project, t.experiment), t.project, t.experiment,
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
