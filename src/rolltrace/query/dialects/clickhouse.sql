-- Written by `make gen` from src/rolltrace/query/views.py.

-- (used by the views below)
CREATE OR REPLACE VIEW _dropped AS
SELECT DISTINCT
  _files_losses.trajectory_id AS trajectory_id
FROM _files_losses AS _files_losses
WHERE
  NOT (
    _files_losses.trajectory_id IS NULL
  )
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW losses AS
SELECT
  _files_losses.project AS project,
  _files_losses.experiment AS experiment,
  _files_losses.step AS step,
  _files_losses.worker AS worker,
  _files_losses.reason AS reason,
  _files_losses.count AS count,
  _files_losses.sample_index AS sample_index,
  _files_losses.validate AS validate,
  _files_losses.trajectory_id AS trajectory_id,
  _files_losses.run AS run
FROM _files_losses AS _files_losses
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _trajectories AS
SELECT
  _files_trajectories.trajectory_id AS trajectory_id,
  _files_trajectories.project AS project,
  _files_trajectories.experiment AS experiment,
  _files_trajectories.step AS step,
  _files_trajectories.sample_index AS sample_index,
  _files_trajectories.sample_is_int AS sample_is_int,
  _files_trajectories.rollout_n AS rollout_n,
  _files_trajectories.validate AS validate,
  _files_trajectories.worker AS worker,
  _files_trajectories.run AS run,
  _files_trajectories.run_ns AS run_ns,
  _files_trajectories.name AS name,
  _files_trajectories.start_ns AS start_ns,
  _files_trajectories.end_ns AS end_ns,
  _files_trajectories.status AS status,
  _files_trajectories.error AS error,
  _files_trajectories.traceback AS traceback,
  _files_trajectories.parent_trajectory_id AS parent_trajectory_id,
  _files_trajectories.parent_op_id AS parent_op_id,
  _files_trajectories.tags AS tags,
  _files_trajectories.is_group AS is_group
FROM _files_trajectories AS _files_trajectories
ANTI JOIN _dropped AS _dropped
  ON _files_trajectories.trajectory_id = _dropped.trajectory_id
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _spans AS
SELECT
  _files_spans.trajectory_id AS trajectory_id,
  _files_spans.project AS project,
  _files_spans.experiment AS experiment,
  _files_spans.step AS step,
  _files_spans.sample_index AS sample_index,
  _files_spans.sample_is_int AS sample_is_int,
  _files_spans.rollout_n AS rollout_n,
  _files_spans.validate AS validate,
  _files_spans.worker AS worker,
  _files_spans.run AS run,
  _files_spans.run_ns AS run_ns,
  _files_spans.op_id AS op_id,
  _files_spans.parent_id AS parent_id,
  _files_spans.name AS name,
  _files_spans.kind AS kind,
  _files_spans.start_ns AS start_ns,
  _files_spans.end_ns AS end_ns,
  _files_spans.status AS status,
  _files_spans.error AS error,
  _files_spans.traceback AS traceback,
  _files_spans.thread AS thread,
  _files_spans.policy_version AS policy_version,
  _files_spans.finish_reason AS finish_reason,
  _files_spans.prompt_tokens AS prompt_tokens,
  _files_spans.response_tokens AS response_tokens,
  _files_spans.tokens AS tokens,
  _files_spans.logprobs AS logprobs,
  _files_spans.response_mask AS response_mask,
  _files_spans.payload AS payload,
  _files_spans.tokenizer AS tokenizer,
  _files_spans.text AS text,
  _files_spans.prompt_chars AS prompt_chars,
  _files_spans.piece_chars AS piece_chars,
  _files_spans.cached_tokens AS cached_tokens,
  _files_spans.reasoning_tokens AS reasoning_tokens
FROM _files_spans AS _files_spans
ANTI JOIN _dropped AS _dropped
  ON _files_spans.trajectory_id = _dropped.trajectory_id
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _transitions AS
SELECT
  _files_transitions.trajectory_id AS trajectory_id,
  _files_transitions.project AS project,
  _files_transitions.experiment AS experiment,
  _files_transitions.step AS step,
  _files_transitions.sample_index AS sample_index,
  _files_transitions.sample_is_int AS sample_is_int,
  _files_transitions.rollout_n AS rollout_n,
  _files_transitions.validate AS validate,
  _files_transitions.worker AS worker,
  _files_transitions.run AS run,
  _files_transitions.run_ns AS run_ns,
  _files_transitions.op_id AS op_id,
  _files_transitions.time_ns AS time_ns,
  _files_transitions.trace AS trace,
  _files_transitions.reward AS reward,
  _files_transitions.fields AS fields,
  _files_transitions.episode_done AS episode_done,
  _files_transitions.stop_reason AS stop_reason,
  _files_transitions.backfill AS backfill,
  _files_transitions.amends AS amends,
  _files_transitions.turn AS turn
FROM _files_transitions AS _files_transitions
ANTI JOIN _dropped AS _dropped
  ON _files_transitions.trajectory_id = _dropped.trajectory_id
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _scores AS
SELECT
  _files_scores.trajectory_id AS trajectory_id,
  _files_scores.project AS project,
  _files_scores.experiment AS experiment,
  _files_scores.step AS step,
  _files_scores.sample_index AS sample_index,
  _files_scores.sample_is_int AS sample_is_int,
  _files_scores.rollout_n AS rollout_n,
  _files_scores.validate AS validate,
  _files_scores.worker AS worker,
  _files_scores.run AS run,
  _files_scores.run_ns AS run_ns,
  _files_scores.name AS name,
  _files_scores.value AS value,
  _files_scores.terms AS terms,
  _files_scores.time_ns AS time_ns,
  _files_scores.label AS label,
  _files_scores.reason AS reason,
  _files_scores.trained_step AS trained_step,
  _files_scores.author AS author,
  _files_scores.op_id AS op_id
FROM _files_scores AS _files_scores
ANTI JOIN _dropped AS _dropped
  ON _files_scores.trajectory_id = _dropped.trajectory_id
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW notes AS
SELECT
  _files_notes.trajectory_id AS trajectory_id,
  _files_notes.project AS project,
  _files_notes.experiment AS experiment,
  _files_notes.step AS step,
  _files_notes.sample_index AS sample_index,
  _files_notes.sample_is_int AS sample_is_int,
  _files_notes.rollout_n AS rollout_n,
  _files_notes.validate AS validate,
  _files_notes.worker AS worker,
  _files_notes.run AS run,
  _files_notes.run_ns AS run_ns,
  _files_notes.event AS event,
  _files_notes.op_id AS op_id,
  _files_notes.time_ns AS time_ns,
  _files_notes.body AS body
FROM _files_notes AS _files_notes
ANTI JOIN _dropped AS _dropped
  ON _files_notes.trajectory_id = _dropped.trajectory_id
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW flags AS
SELECT
  _files_flags.trajectory_id AS trajectory_id,
  _files_flags.project AS project,
  _files_flags.experiment AS experiment,
  _files_flags.step AS step,
  _files_flags.sample_index AS sample_index,
  _files_flags.sample_is_int AS sample_is_int,
  _files_flags.rollout_n AS rollout_n,
  _files_flags.validate AS validate,
  _files_flags.worker AS worker,
  _files_flags.run AS run,
  _files_flags.run_ns AS run_ns,
  _files_flags.flag AS flag,
  _files_flags.op_id AS op_id,
  _files_flags.time_ns AS time_ns,
  _files_flags.detail AS detail
FROM _files_flags AS _files_flags
ANTI JOIN _dropped AS _dropped
  ON _files_flags.trajectory_id = _dropped.trajectory_id
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW texts AS
SELECT
  _files_texts.trajectory_id AS trajectory_id,
  _files_texts.project AS project,
  _files_texts.experiment AS experiment,
  _files_texts.step AS step,
  _files_texts.sample_index AS sample_index,
  _files_texts.sample_is_int AS sample_is_int,
  _files_texts.rollout_n AS rollout_n,
  _files_texts.validate AS validate,
  _files_texts.worker AS worker,
  _files_texts.run AS run,
  _files_texts.run_ns AS run_ns,
  _files_texts.op_id AS op_id,
  _files_texts.time_ns AS time_ns,
  _files_texts.text AS text,
  _files_texts.prompt_chars AS prompt_chars,
  _files_texts.piece_chars AS piece_chars
FROM _files_texts AS _files_texts
ANTI JOIN _dropped AS _dropped
  ON _files_texts.trajectory_id = _dropped.trajectory_id
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _spans_with_text AS
SELECT
  s.trajectory_id AS trajectory_id,
  s.project AS project,
  s.experiment AS experiment,
  s.step AS step,
  s.sample_index AS sample_index,
  s.sample_is_int AS sample_is_int,
  s.rollout_n AS rollout_n,
  s.validate AS validate,
  s.worker AS worker,
  s.run AS run,
  s.run_ns AS run_ns,
  s.op_id AS op_id,
  s.parent_id AS parent_id,
  s.name AS name,
  s.kind AS kind,
  s.start_ns AS start_ns,
  s.end_ns AS end_ns,
  s.status AS status,
  s.error AS error,
  s.traceback AS traceback,
  s.thread AS thread,
  s.policy_version AS policy_version,
  s.finish_reason AS finish_reason,
  s.prompt_tokens AS prompt_tokens,
  s.response_tokens AS response_tokens,
  s.tokens AS tokens,
  s.logprobs AS logprobs,
  s.response_mask AS response_mask,
  s.payload AS payload,
  s.tokenizer AS tokenizer,
  COALESCE(s.text, x.text) AS text,
  COALESCE(s.prompt_chars, x.prompt_chars) AS prompt_chars,
  if(notEmpty(s.piece_chars), s.piece_chars, x.piece_chars) AS piece_chars,
  s.cached_tokens AS cached_tokens,
  s.reasoning_tokens AS reasoning_tokens
FROM _spans AS s
LEFT JOIN texts AS x
  ON x.trajectory_id = s.trajectory_id AND x.op_id = s.op_id
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _rows AS
WITH own AS (
  SELECT
    _trajectories.trajectory_id AS trajectory_id,
    _trajectories.project AS project,
    _trajectories.experiment AS experiment,
    _trajectories.step AS step,
    _trajectories.sample_index AS sample_index,
    _trajectories.sample_is_int AS sample_is_int,
    _trajectories.rollout_n AS rollout_n,
    _trajectories.validate AS validate,
    _trajectories.worker AS worker,
    _trajectories.run AS run,
    _trajectories.run_ns AS run_ns,
    _trajectories.name AS name,
    _trajectories.start_ns AS start_ns,
    _trajectories.end_ns AS end_ns,
    _trajectories.status AS status,
    _trajectories.error AS error,
    _trajectories.traceback AS traceback,
    _trajectories.parent_trajectory_id AS parent_trajectory_id,
    _trajectories.parent_op_id AS parent_op_id,
    _trajectories.tags AS tags,
    _trajectories.is_group AS is_group
  FROM _trajectories AS _trajectories
  WHERE
    NOT COALESCE(_trajectories.is_group, FALSE)
  QUALIFY
    ROW_NUMBER() OVER (
      PARTITION BY trajectory_id
      ORDER BY _trajectories.end_ns IS NULL, _trajectories.end_ns DESC, _trajectories.start_ns
    ) = 1
), loose AS (
  SELECT
    s.trajectory_id AS trajectory_id,
    s.project AS project,
    s.experiment AS experiment,
    s.step AS step,
    s.sample_index AS sample_index,
    s.sample_is_int AS sample_is_int,
    s.rollout_n AS rollout_n,
    s.validate AS validate,
    s.worker AS worker,
    s.run AS run,
    s.run_ns AS run_ns,
    s.start_ns AS start_ns,
    s.end_ns AS end_ns,
    s.status AS status,
    s.error AS error,
    s.name AS name
  FROM _spans AS s
  ANTI JOIN _trajectories AS _trajectories
    ON s.trajectory_id = _trajectories.trajectory_id
  QUALIFY
    ROW_NUMBER() OVER (PARTITION BY trajectory_id ORDER BY NOT (
      s.parent_id IS NULL
    ), s.start_ns) = 1
), every AS (
  SELECT
    _0.trajectory_id AS trajectory_id,
    _0.project AS project,
    _0.experiment AS experiment,
    _0.step AS step,
    _0.sample_index AS sample_index,
    _0.sample_is_int AS sample_is_int,
    _0.rollout_n AS rollout_n,
    _0.validate AS validate,
    _0.worker AS worker,
    _0.run AS run,
    _0.run_ns AS run_ns,
    _0.name AS name,
    _0.start_ns AS start_ns,
    _0.end_ns AS end_ns,
    _0.status AS status,
    _0.error AS error,
    _0.parent_trajectory_id AS parent_trajectory_id,
    _0.tags AS tags,
    CASE
      WHEN _0.parent_trajectory_id IS NULL
      OR NOT MAX(_0.parent_trajectory_id IS NULL) OVER (
        PARTITION BY _0.project, _0.experiment, _0.step, _0.sample_index, _0.rollout_n, _0.validate, _0.run
      )
      THEN COALESCE(
        MIN(_0.start_ns) OVER (
          PARTITION BY _0.project, _0.experiment, _0.step, _0.sample_index, _0.rollout_n, _0.validate, _0.run, _0.parent_trajectory_id IS NULL
          ORDER BY _0.start_ns, _0.trajectory_id DESC
          ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ),
        9223372036854775807
      )
    END AS _run_until_ns,
    CASE
      WHEN _0.parent_trajectory_id IS NULL
      OR NOT MAX(_0.parent_trajectory_id IS NULL) OVER (
        PARTITION BY _0.project, _0.experiment, _0.step, _0.sample_index, _0.rollout_n, _0.validate
      )
      THEN COALESCE(
        MIN(_0.start_ns) OVER (
          PARTITION BY _0.project, _0.experiment, _0.step, _0.sample_index, _0.rollout_n, _0.validate, _0.parent_trajectory_id IS NULL
          ORDER BY _0.start_ns, _0.trajectory_id DESC
          ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
        ),
        9223372036854775807
      )
    END AS _until_ns
  FROM (
    SELECT
      own.trajectory_id AS trajectory_id,
      own.project AS project,
      own.experiment AS experiment,
      own.step AS step,
      own.sample_index AS sample_index,
      own.sample_is_int AS sample_is_int,
      own.rollout_n AS rollout_n,
      own.validate AS validate,
      own.worker AS worker,
      own.run AS run,
      own.run_ns AS run_ns,
      own.name AS name,
      own.start_ns AS start_ns,
      own.end_ns AS end_ns,
      own.status AS status,
      own.error AS error,
      own.parent_trajectory_id AS parent_trajectory_id,
      own.tags AS tags
    FROM own AS own
    UNION ALL
    SELECT
      loose.trajectory_id AS trajectory_id,
      loose.project AS project,
      loose.experiment AS experiment,
      loose.step AS step,
      loose.sample_index AS sample_index,
      loose.sample_is_int AS sample_is_int,
      loose.rollout_n AS rollout_n,
      loose.validate AS validate,
      loose.worker AS worker,
      loose.run AS run,
      loose.run_ns AS run_ns,
      loose.name AS name,
      loose.start_ns AS start_ns,
      loose.end_ns AS end_ns,
      loose.status AS status,
      loose.error AS error,
      NULL AS parent_trajectory_id,
      NULL AS tags
    FROM loose AS loose
  ) AS _0
), newest AS (
  SELECT
    _1.project AS project,
    _1.experiment AS experiment,
    _1.step AS step,
    _1.validate AS validate,
    argMax(
      _1.run_key,
      (
        (
          (
            _1.run_key <> ''
          ) IS NULL
        ),
        _1.run_key <> '',
        (
          (
            _1.began
          ) IS NULL
        ),
        _1.began,
        (
          (
            _1.run_key
          ) IS NULL
        ),
        _1.run_key
      )
    ) AS newest_run
  FROM (
    SELECT
      every.project AS project,
      every.experiment AS experiment,
      every.step AS step,
      every.validate AS validate,
      COALESCE(every.run, '') AS run_key,
      MIN(COALESCE(every.run_ns, every.start_ns)) AS began
    FROM every AS every
    GROUP BY ALL
  ) AS _1
  GROUP BY
    _1.project,
    _1.experiment,
    _1.step,
    _1.validate
), calls AS (
  SELECT
    _spans.trajectory_id AS trajectory_id,
    COUNT(*) FILTER(WHERE
      _spans.kind = 'llm') AS turns,
    COUNT(*) FILTER(WHERE
      _spans.kind = 'tool') AS tool_calls,
    COUNT(*) FILTER(WHERE
      _spans.kind = 'tool' AND _spans.status = 'error') AS tool_errors,
    argMax(
      _spans.prompt_tokens,
      ((
          (
            _spans.start_ns
          ) IS NULL
      ), _spans.start_ns)
    ) FILTER(WHERE
      _spans.kind = 'llm') AS prompt_tokens,
    SUM(_spans.response_tokens) FILTER(WHERE
      _spans.kind = 'llm') AS response_tokens,
    MIN(_spans.policy_version) FILTER(WHERE
      _spans.kind <> 'aux_llm') AS policy_version_min,
    MAX(_spans.policy_version) FILTER(WHERE
      _spans.kind <> 'aux_llm') AS policy_version_max
  FROM _spans AS _spans
  GROUP BY
    _spans.trajectory_id
)
SELECT
  every.trajectory_id AS trajectory_id,
  every.project AS project,
  every.experiment AS experiment,
  every.step AS step,
  every.sample_index AS sample_index,
  every.rollout_n AS rollout_n,
  every.validate AS validate,
  every.name AS name,
  every.status AS status,
  every.error AS error,
  every.start_ns AS start_ns,
  every.end_ns AS end_ns,
  (
    every.end_ns - every.start_ns
  ) / 1e9 AS duration_s,
  COALESCE(calls.turns, 0) AS turns,
  COALESCE(calls.tool_calls, 0) AS tool_calls,
  COALESCE(calls.tool_errors, 0) AS tool_errors,
  calls.prompt_tokens AS prompt_tokens,
  CAST(calls.response_tokens AS Nullable(Int64)) AS response_tokens,
  _5.reward AS reward,
  calls.policy_version_min AS policy_version_min,
  calls.policy_version_max AS policy_version_max,
  found.flags AS flags,
  marked.labels AS labels,
  every.tags AS tags,
  every.worker AS worker,
  _5.advantage AS advantage,
  _5.fate AS fate,
  _5.fate_reason AS fate_reason,
  CASE
    WHEN COALESCE(_5.trained_step, every.step) >= calls.policy_version_min
    THEN COALESCE(_5.trained_step, every.step) - calls.policy_version_min
  END AS staleness,
  every.run AS run,
  COALESCE(every.run, '') <> newest.newest_run
  AND (
    NOT (
      every.step IS NULL
    ) OR NOT (
      every.sample_index IS NULL
    )
  ) AS superseded,
  _5.trained_step AS trained_step,
  every.sample_is_int AS _is_int,
  every._run_until_ns AS _run_until_ns,
  every._until_ns AS _until_ns
FROM every AS every
JOIN newest AS newest
  ON every.project IS NOT DISTINCT FROM newest.project
  AND every.experiment IS NOT DISTINCT FROM newest.experiment
  AND every.step IS NOT DISTINCT FROM newest.step
  AND every.validate IS NOT DISTINCT FROM newest.validate
LEFT JOIN calls AS calls
  ON every.trajectory_id = calls.trajectory_id
LEFT JOIN (
  SELECT
    _3.trajectory_id AS trajectory_id,
    tupleElement(_3._reward, 3) AS reward,
    tupleElement(_3._advantage, 3) AS advantage,
    tupleElement(_3._fate, 4) AS fate,
    tupleElement(_3._fate, 5) AS fate_reason,
    tupleElement(_3._fate, 7) AS trained_step
  FROM (
    SELECT
      _2.trajectory_id AS trajectory_id,
      argMax(
        tuple(_2.time_ns, _2.worker, _2.value, _2.label, _2.reason, _2.terms, _2.trained_step),
        (
          (
            (
              _2.time_ns
            ) IS NULL
          ),
          _2.time_ns,
          (
            (
              _2.worker
            ) IS NULL
          ),
          _2.worker,
          (
            (
              _2.value
            ) IS NULL
          ),
          _2.value,
          (
            (
              _2.label
            ) IS NULL
          ),
          _2.label
        )
      ) FILTER(WHERE
        _2.name = 'reward') AS _reward,
      argMax(
        tuple(_2.time_ns, _2.worker, _2.value, _2.label, _2.reason, _2.terms, _2.trained_step),
        (
          (
            (
              _2.time_ns
            ) IS NULL
          ),
          _2.time_ns,
          (
            (
              _2.worker
            ) IS NULL
          ),
          _2.worker,
          (
            (
              _2.value
            ) IS NULL
          ),
          _2.value,
          (
            (
              _2.label
            ) IS NULL
          ),
          _2.label
        )
      ) FILTER(WHERE
        _2.name = 'advantage') AS _advantage,
      argMax(
        tuple(_2.time_ns, _2.worker, _2.value, _2.label, _2.reason, _2.terms, _2.trained_step),
        (
          (
            (
              _2.time_ns
            ) IS NULL
          ),
          _2.time_ns,
          (
            (
              _2.worker
            ) IS NULL
          ),
          _2.worker,
          (
            (
              _2.value
            ) IS NULL
          ),
          _2.value,
          (
            (
              _2.label
            ) IS NULL
          ),
          _2.label
        )
      ) FILTER(WHERE
        _2.name = 'fate') AS _fate
    FROM (
      SELECT
        COALESCE(s.trajectory_id, meant.trajectory_id) AS trajectory_id,
        s.project AS project,
        s.experiment AS experiment,
        s.step AS step,
        s.sample_index AS sample_index,
        s.sample_is_int AS sample_is_int,
        s.rollout_n AS rollout_n,
        s.validate AS validate,
        s.worker AS worker,
        s.run AS run,
        s.run_ns AS run_ns,
        s.name AS name,
        s.value AS value,
        s.terms AS terms,
        s.time_ns AS time_ns,
        s.label AS label,
        s.reason AS reason,
        s.trained_step AS trained_step,
        s.author AS author,
        s.op_id AS op_id
      FROM (
        SELECT
          s.trajectory_id AS trajectory_id,
          s.project AS project,
          s.experiment AS experiment,
          s.step AS step,
          s.sample_index AS sample_index,
          s.sample_is_int AS sample_is_int,
          s.rollout_n AS rollout_n,
          s.validate AS validate,
          s.worker AS worker,
          s.run AS run,
          s.run_ns AS run_ns,
          s.name AS name,
          s.value AS value,
          s.terms AS terms,
          s.time_ns AS time_ns,
          s.label AS label,
          s.reason AS reason,
          s.trained_step AS trained_step,
          s.author AS author,
          s.op_id AS op_id,
          here.run_key AS _run_key
        FROM _scores AS s
        LEFT JOIN (
          SELECT DISTINCT
            every.project AS project,
            every.experiment AS experiment,
            every.step AS step,
            every.validate AS validate,
            COALESCE(every.run, '') AS run_key
          FROM every AS every
        ) AS here
          ON s.project IS NOT DISTINCT FROM here.project
          AND s.experiment IS NOT DISTINCT FROM here.experiment
          AND s.step IS NOT DISTINCT FROM here.step
          AND s.validate IS NOT DISTINCT FROM here.validate
          AND COALESCE(s.run, '') = here.run_key
      ) AS s
      LEFT JOIN (
        SELECT
          every.project AS project,
          every.experiment AS experiment,
          every.step AS step,
          every.sample_index AS sample_index,
          every.rollout_n AS rollout_n,
          every.validate AS validate,
          every.trajectory_id AS trajectory_id,
          every.start_ns AS start_ns,
          TRUE AS by_coordinates,
          every._run_until_ns AS until_ns,
          COALESCE(every.run, '') AS run_key
        FROM every AS every
        UNION ALL
        SELECT
          every.project AS project,
          every.experiment AS experiment,
          every.step AS step,
          every.sample_index AS sample_index,
          every.rollout_n AS rollout_n,
          every.validate AS validate,
          every.trajectory_id AS trajectory_id,
          every.start_ns AS start_ns,
          TRUE AS by_coordinates,
          every._until_ns AS until_ns,
          NULL AS run_key
        FROM every AS every
      ) AS meant
        ON (
          s.trajectory_id IS NULL
        ) = meant.by_coordinates
        AND s.project IS NOT DISTINCT FROM meant.project
        AND s.experiment IS NOT DISTINCT FROM meant.experiment
        AND s.step IS NOT DISTINCT FROM meant.step
        AND s.sample_index IS NOT DISTINCT FROM meant.sample_index
        AND s.rollout_n IS NOT DISTINCT FROM meant.rollout_n
        AND s.validate IS NOT DISTINCT FROM meant.validate
        AND s._run_key IS NOT DISTINCT FROM meant.run_key
        AND s.time_ns >= meant.start_ns
        AND s.time_ns < meant.until_ns
    ) AS _2
    WHERE
      _2.name IN ('reward', 'advantage', 'fate')
    GROUP BY
      _2.trajectory_id
  ) AS _3
) AS _5
  ON every.trajectory_id = _5.trajectory_id
LEFT JOIN (
  SELECT
    flags.trajectory_id AS trajectory_id,
    arraySort(groupUniqArray(flags.flag)) AS flags
  FROM flags AS flags
  GROUP BY
    flags.trajectory_id
) AS found
  ON every.trajectory_id = found.trajectory_id
LEFT JOIN (
  SELECT
    _4.trajectory_id AS trajectory_id,
    arraySort(groupUniqArray(_4.name)) AS labels
  FROM (
    SELECT
      _scores.trajectory_id AS trajectory_id,
      _scores.name AS name,
      argMax(
        tuple(
          _scores.time_ns,
          _scores.worker,
          _scores.value,
          _scores.label,
          _scores.reason,
          _scores.terms,
          _scores.trained_step
        ),
        (
          (
            (
              _scores.time_ns
            ) IS NULL
          ),
          _scores.time_ns,
          (
            (
              _scores.worker
            ) IS NULL
          ),
          _scores.worker,
          (
            (
              _scores.value
            ) IS NULL
          ),
          _scores.value,
          (
            (
              _scores.label
            ) IS NULL
          ),
          _scores.label
        )
      ) AS newest
    FROM _scores AS _scores
    WHERE
      NOT (
        _scores.author IS NULL
      )
    GROUP BY
      _scores.trajectory_id,
      _scores.name,
      _scores.author,
      _scores.op_id
  ) AS _4
  WHERE
    NOT (
      tupleElement(_4.newest, 4) IS NULL
    )
  GROUP BY
    _4.trajectory_id
) AS marked
  ON every.trajectory_id = marked.trajectory_id
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _listing AS
SELECT
  _rows.trajectory_id AS trajectory_id,
  _rows.project AS project,
  _rows.experiment AS experiment,
  _rows.step AS step,
  _rows.sample_index AS sample_index,
  _rows.rollout_n AS rollout_n,
  _rows.validate AS validate,
  _rows.name AS name,
  _rows.status AS status,
  _rows.error AS error,
  _rows.start_ns AS start_ns,
  _rows.end_ns AS end_ns,
  _rows.duration_s AS duration_s,
  _rows.turns AS turns,
  _rows.tool_calls AS tool_calls,
  _rows.tool_errors AS tool_errors,
  _rows.prompt_tokens AS prompt_tokens,
  _rows.response_tokens AS response_tokens,
  _rows.reward AS reward,
  _rows.policy_version_min AS policy_version_min,
  _rows.policy_version_max AS policy_version_max,
  _rows.flags AS flags,
  _rows.labels AS labels,
  _rows.tags AS tags,
  _rows.worker AS worker,
  _rows.advantage AS advantage,
  _rows.fate AS fate,
  _rows.fate_reason AS fate_reason,
  _rows.staleness AS staleness,
  _rows.run AS run,
  _rows.superseded AS superseded,
  _rows.trained_step AS trained_step,
  _rows._is_int AS _is_int,
  _rows._run_until_ns AS _run_until_ns,
  _rows._until_ns AS _until_ns
FROM _rows AS _rows
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _scores_with_place AS
SELECT
  s.trajectory_id AS trajectory_id,
  COALESCE(t.project, s.project) AS project,
  COALESCE(t.experiment, s.experiment) AS experiment,
  COALESCE(t.step, s.step) AS step,
  COALESCE(t.sample_index, s.sample_index) AS sample_index,
  COALESCE(t._is_int, s.sample_is_int) AS sample_is_int,
  COALESCE(t.rollout_n, s.rollout_n) AS rollout_n,
  COALESCE(t.validate, s.validate) AS validate,
  s.worker AS worker,
  COALESCE(t.run, s.run) AS run,
  s.run_ns AS run_ns,
  s.name AS name,
  s.value AS value,
  s.terms AS terms,
  s.time_ns AS time_ns,
  s.label AS label,
  s.reason AS reason,
  s.trained_step AS trained_step,
  s.author AS author,
  s.op_id AS op_id,
  NOT (
    t.trajectory_id IS NULL
  ) AS _known
FROM (
  SELECT
    COALESCE(s.trajectory_id, meant.trajectory_id) AS trajectory_id,
    s.project AS project,
    s.experiment AS experiment,
    s.step AS step,
    s.sample_index AS sample_index,
    s.sample_is_int AS sample_is_int,
    s.rollout_n AS rollout_n,
    s.validate AS validate,
    s.worker AS worker,
    s.run AS run,
    s.run_ns AS run_ns,
    s.name AS name,
    s.value AS value,
    s.terms AS terms,
    s.time_ns AS time_ns,
    s.label AS label,
    s.reason AS reason,
    s.trained_step AS trained_step,
    s.author AS author,
    s.op_id AS op_id
  FROM (
    SELECT
      s.trajectory_id AS trajectory_id,
      s.project AS project,
      s.experiment AS experiment,
      s.step AS step,
      s.sample_index AS sample_index,
      s.sample_is_int AS sample_is_int,
      s.rollout_n AS rollout_n,
      s.validate AS validate,
      s.worker AS worker,
      s.run AS run,
      s.run_ns AS run_ns,
      s.name AS name,
      s.value AS value,
      s.terms AS terms,
      s.time_ns AS time_ns,
      s.label AS label,
      s.reason AS reason,
      s.trained_step AS trained_step,
      s.author AS author,
      s.op_id AS op_id,
      here.run_key AS _run_key
    FROM _scores AS s
    LEFT JOIN (
      SELECT DISTINCT
        _rows.project AS project,
        _rows.experiment AS experiment,
        _rows.step AS step,
        _rows.validate AS validate,
        COALESCE(_rows.run, '') AS run_key
      FROM _rows AS _rows
    ) AS here
      ON s.project IS NOT DISTINCT FROM here.project
      AND s.experiment IS NOT DISTINCT FROM here.experiment
      AND s.step IS NOT DISTINCT FROM here.step
      AND s.validate IS NOT DISTINCT FROM here.validate
      AND COALESCE(s.run, '') = here.run_key
  ) AS s
  LEFT JOIN (
    SELECT
      _rows.project AS project,
      _rows.experiment AS experiment,
      _rows.step AS step,
      _rows.sample_index AS sample_index,
      _rows.rollout_n AS rollout_n,
      _rows.validate AS validate,
      _rows.trajectory_id AS trajectory_id,
      _rows.start_ns AS start_ns,
      TRUE AS by_coordinates,
      _rows._run_until_ns AS until_ns,
      COALESCE(_rows.run, '') AS run_key
    FROM _rows AS _rows
    UNION ALL
    SELECT
      _rows.project AS project,
      _rows.experiment AS experiment,
      _rows.step AS step,
      _rows.sample_index AS sample_index,
      _rows.rollout_n AS rollout_n,
      _rows.validate AS validate,
      _rows.trajectory_id AS trajectory_id,
      _rows.start_ns AS start_ns,
      TRUE AS by_coordinates,
      _rows._until_ns AS until_ns,
      NULL AS run_key
    FROM _rows AS _rows
  ) AS meant
    ON (
      s.trajectory_id IS NULL
    ) = meant.by_coordinates
    AND s.project IS NOT DISTINCT FROM meant.project
    AND s.experiment IS NOT DISTINCT FROM meant.experiment
    AND s.step IS NOT DISTINCT FROM meant.step
    AND s.sample_index IS NOT DISTINCT FROM meant.sample_index
    AND s.rollout_n IS NOT DISTINCT FROM meant.rollout_n
    AND s.validate IS NOT DISTINCT FROM meant.validate
    AND s._run_key IS NOT DISTINCT FROM meant.run_key
    AND s.time_ns >= meant.start_ns
    AND s.time_ns < meant.until_ns
) AS s
LEFT JOIN _rows AS t
  ON t.trajectory_id = s.trajectory_id
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW scores AS
SELECT
  _scores_with_place.trajectory_id AS trajectory_id,
  _scores_with_place.project AS project,
  _scores_with_place.experiment AS experiment,
  _scores_with_place.step AS step,
  _scores_with_place.sample_index AS sample_index,
  _scores_with_place.sample_is_int AS sample_is_int,
  _scores_with_place.rollout_n AS rollout_n,
  _scores_with_place.validate AS validate,
  _scores_with_place.worker AS worker,
  _scores_with_place.run AS run,
  _scores_with_place.run_ns AS run_ns,
  _scores_with_place.name AS name,
  _scores_with_place.value AS value,
  _scores_with_place.terms AS terms,
  _scores_with_place.time_ns AS time_ns,
  _scores_with_place.label AS label,
  _scores_with_place.reason AS reason,
  _scores_with_place.trained_step AS trained_step,
  _scores_with_place.author AS author,
  _scores_with_place.op_id AS op_id
FROM _scores_with_place AS _scores_with_place
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _latest_scores AS
SELECT
  _0.trajectory_id AS trajectory_id,
  _0.name AS name,
  tupleElement(_0.newest, 3) AS value,
  tupleElement(_0.newest, 6) AS terms,
  tupleElement(_0.newest, 1) AS time_ns,
  tupleElement(_0.newest, 4) AS label,
  tupleElement(_0.newest, 5) AS reason,
  tupleElement(_0.newest, 7) AS trained_step,
  _0.author AS author,
  _0.op_id AS op_id
FROM (
  SELECT
    _scores_with_place.trajectory_id AS trajectory_id,
    _scores_with_place.name AS name,
    _scores_with_place.author AS author,
    _scores_with_place.op_id AS op_id,
    argMax(
      tuple(
        _scores_with_place.time_ns,
        _scores_with_place.worker,
        _scores_with_place.value,
        _scores_with_place.label,
        _scores_with_place.reason,
        _scores_with_place.terms,
        _scores_with_place.trained_step
      ),
      (
        (
          (
            _scores_with_place.time_ns
          ) IS NULL
        ),
        _scores_with_place.time_ns,
        (
          (
            _scores_with_place.worker
          ) IS NULL
        ),
        _scores_with_place.worker,
        (
          (
            _scores_with_place.value
          ) IS NULL
        ),
        _scores_with_place.value,
        (
          (
            _scores_with_place.label
          ) IS NULL
        ),
        _scores_with_place.label
      )
    ) AS newest
  FROM _scores_with_place AS _scores_with_place
  WHERE
    _scores_with_place._known
  GROUP BY
    _scores_with_place.trajectory_id,
    _scores_with_place.name,
    _scores_with_place.author,
    _scores_with_place.op_id
) AS _0
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW latest_scores AS
SELECT
  _latest_scores.trajectory_id AS trajectory_id,
  _latest_scores.name AS name,
  _latest_scores.value AS value,
  _latest_scores.terms AS terms,
  _latest_scores.time_ns AS time_ns,
  _latest_scores.label AS label,
  _latest_scores.reason AS reason,
  _latest_scores.trained_step AS trained_step,
  _latest_scores.author AS author,
  _latest_scores.op_id AS op_id
FROM _latest_scores AS _latest_scores
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW labels AS
SELECT
  x.trajectory_id AS trajectory_id,
  x.op_id AS op_id,
  x.name AS name,
  x.label AS value,
  x.author AS author,
  x.time_ns AS time_ns,
  x.reason AS reason,
  t.project AS project,
  t.experiment AS experiment,
  t.step AS step,
  t.sample_index AS sample_index,
  t.rollout_n AS rollout_n,
  t.validate AS validate
FROM _latest_scores AS x
JOIN _rows AS t
  ON x.trajectory_id = t.trajectory_id
WHERE
  NOT (
    x.author IS NULL
  ) AND NOT (
    x.label IS NULL
  )
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW unmatched_scores AS
SELECT
  _scores_with_place.trajectory_id AS trajectory_id,
  _scores_with_place.project AS project,
  _scores_with_place.experiment AS experiment,
  _scores_with_place.step AS step,
  _scores_with_place.sample_index AS sample_index,
  _scores_with_place.sample_is_int AS sample_is_int,
  _scores_with_place.rollout_n AS rollout_n,
  _scores_with_place.validate AS validate,
  _scores_with_place.worker AS worker,
  _scores_with_place.run AS run,
  _scores_with_place.run_ns AS run_ns,
  _scores_with_place.name AS name,
  _scores_with_place.value AS value,
  _scores_with_place.terms AS terms,
  _scores_with_place.time_ns AS time_ns,
  _scores_with_place.label AS label,
  _scores_with_place.reason AS reason,
  _scores_with_place.trained_step AS trained_step,
  _scores_with_place.author AS author,
  _scores_with_place.op_id AS op_id
FROM _scores_with_place AS _scores_with_place
WHERE
  NOT _scores_with_place._known
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- transitions: not in this dialect, since it lays amendments on steps with json_merge_patch. _transitions has the rows as they are stored: an amendment is a row of its own (amends).

CREATE OR REPLACE VIEW spans AS
SELECT
  _spans_with_text.trajectory_id AS trajectory_id,
  _spans_with_text.project AS project,
  _spans_with_text.experiment AS experiment,
  _spans_with_text.step AS step,
  _spans_with_text.sample_index AS sample_index,
  _spans_with_text.sample_is_int AS sample_is_int,
  _spans_with_text.rollout_n AS rollout_n,
  _spans_with_text.validate AS validate,
  _spans_with_text.worker AS worker,
  _spans_with_text.run AS run,
  _spans_with_text.run_ns AS run_ns,
  _spans_with_text.op_id AS op_id,
  _spans_with_text.parent_id AS parent_id,
  _spans_with_text.name AS name,
  _spans_with_text.kind AS kind,
  _spans_with_text.start_ns AS start_ns,
  _spans_with_text.end_ns AS end_ns,
  _spans_with_text.status AS status,
  _spans_with_text.error AS error,
  _spans_with_text.traceback AS traceback,
  _spans_with_text.thread AS thread,
  _spans_with_text.policy_version AS policy_version,
  _spans_with_text.finish_reason AS finish_reason,
  _spans_with_text.prompt_tokens AS prompt_tokens,
  _spans_with_text.response_tokens AS response_tokens,
  _spans_with_text.tokens AS tokens,
  _spans_with_text.logprobs AS logprobs,
  _spans_with_text.response_mask AS response_mask,
  _spans_with_text.payload AS payload,
  _spans_with_text.tokenizer AS tokenizer,
  _spans_with_text.text AS text,
  _spans_with_text.prompt_chars AS prompt_chars,
  _spans_with_text.piece_chars AS piece_chars,
  _spans_with_text.cached_tokens AS cached_tokens,
  _spans_with_text.reasoning_tokens AS reasoning_tokens,
  (
    _spans_with_text.end_ns - _spans_with_text.start_ns
  ) / 1e9 AS duration_s,
  CASE
    WHEN match(_spans_with_text.sample_index, '^-?[0-9]+$')
    THEN toInt64OrNull(_spans_with_text.sample_index)
  END AS sample_number,
  if(
    NOT (
      _spans_with_text.prompt_tokens IS NULL
    ),
    arraySlice(_spans_with_text.tokens, 1, _spans_with_text.prompt_tokens),
    []
  ) AS prompt_ids,
  if(
    NOT (
      _spans_with_text.response_tokens IS NULL
    ),
    arraySlice(_spans_with_text.tokens, COALESCE(_spans_with_text.prompt_tokens, 0) + 1),
    []
  ) AS response_ids,
  CASE
    WHEN NOT (
      _spans_with_text.prompt_tokens IS NULL
    )
    THEN substringUTF8(_spans_with_text.text, 1, _spans_with_text.prompt_chars)
  END AS prompt_text,
  CASE
    WHEN NOT (
      _spans_with_text.response_tokens IS NULL
    )
    THEN substringUTF8(_spans_with_text.text, _spans_with_text.prompt_chars + 1)
  END AS response_text,
  nullIf(JSONExtractRaw(_spans_with_text.payload, 'inputs'), '') AS inputs,
  nullIf(JSONExtractRaw(_spans_with_text.payload, 'outputs'), '') AS outputs
FROM _spans_with_text AS _spans_with_text
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW trajectories AS
SELECT
  _listing.trajectory_id AS trajectory_id,
  _listing.project AS project,
  _listing.experiment AS experiment,
  _listing.step AS step,
  _listing.sample_index AS sample_index,
  _listing.rollout_n AS rollout_n,
  _listing.validate AS validate,
  _listing.name AS name,
  _listing.status AS status,
  _listing.error AS error,
  _listing.start_ns AS start_ns,
  _listing.end_ns AS end_ns,
  _listing.duration_s AS duration_s,
  _listing.turns AS turns,
  _listing.tool_calls AS tool_calls,
  _listing.tool_errors AS tool_errors,
  _listing.prompt_tokens AS prompt_tokens,
  _listing.response_tokens AS response_tokens,
  _listing.reward AS reward,
  _listing.policy_version_min AS policy_version_min,
  _listing.policy_version_max AS policy_version_max,
  _listing.flags AS flags,
  _listing.labels AS labels,
  _listing.tags AS tags,
  _listing.worker AS worker,
  _listing.advantage AS advantage,
  _listing.fate AS fate,
  _listing.fate_reason AS fate_reason,
  _listing.staleness AS staleness,
  _listing.run AS run,
  _listing.superseded AS superseded,
  _listing.trained_step AS trained_step,
  CASE
    WHEN match(_listing.sample_index, '^-?[0-9]+$')
    THEN toInt64OrNull(_listing.sample_index)
  END AS sample_number
FROM _listing AS _listing
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW tokens AS
SELECT
  spans.trajectory_id AS trajectory_id,
  spans.project AS project,
  spans.experiment AS experiment,
  spans.step AS step,
  spans.op_id AS op_id,
  spans.name AS name,
  spans.start_ns AS start_ns,
  spans.policy_version AS policy_version,
  spans.prompt_ids AS prompt_ids,
  spans.response_ids AS response_ids,
  spans.logprobs AS logprobs,
  spans.response_mask AS response_mask
FROM spans AS spans
WHERE
  NOT empty(spans.prompt_ids) OR NOT empty(spans.response_ids)
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _judged AS
SELECT
  t.trajectory_id AS trajectory_id,
  t.project AS project,
  t.experiment AS experiment,
  t.step AS step,
  t.sample_index AS sample_index,
  t.rollout_n AS rollout_n,
  t.validate AS validate,
  t.name AS name,
  t.status AS status,
  t.error AS error,
  t.start_ns AS start_ns,
  t.end_ns AS end_ns,
  t.duration_s AS duration_s,
  t.turns AS turns,
  t.tool_calls AS tool_calls,
  t.tool_errors AS tool_errors,
  t.prompt_tokens AS prompt_tokens,
  t.response_tokens AS response_tokens,
  t.reward AS reward,
  t.policy_version_min AS policy_version_min,
  t.policy_version_max AS policy_version_max,
  t.flags AS flags,
  t.labels AS labels,
  t.tags AS tags,
  t.worker AS worker,
  t.advantage AS advantage,
  t.fate AS fate,
  t.fate_reason AS fate_reason,
  t.staleness AS staleness,
  t.run AS run,
  t.superseded AS superseded,
  t.trained_step AS trained_step,
  t._is_int AS _is_int,
  t._run_until_ns AS _run_until_ns,
  t._until_ns AS _until_ns,
  CASE
    WHEN NOT (
      t.reward IS NULL
    )
    THEN (
      t.reward > 0 AND NOT isNaN(t.reward)
    )
  END AS _passed,
  'reward > 0' AS pass_rule
FROM _listing AS t
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _passes AS
SELECT
  _judged.trajectory_id AS trajectory_id,
  _judged.project AS project,
  _judged.experiment AS experiment,
  _judged.step AS step,
  _judged.sample_index AS sample_index,
  _judged.rollout_n AS rollout_n,
  _judged.validate AS validate,
  _judged.run AS run,
  _judged.superseded AS superseded,
  _judged._passed AS passed,
  _judged.pass_rule AS pass_rule
FROM _judged AS _judged
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW passes AS
SELECT
  _passes.trajectory_id AS trajectory_id,
  _passes.project AS project,
  _passes.experiment AS experiment,
  _passes.step AS step,
  _passes.sample_index AS sample_index,
  _passes.rollout_n AS rollout_n,
  _passes.validate AS validate,
  _passes.run AS run,
  _passes.superseded AS superseded,
  _passes.passed AS passed,
  _passes.pass_rule AS pass_rule
FROM _passes AS _passes
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _groups AS
SELECT
  _0.project AS project,
  _0.experiment AS experiment,
  _0.step AS step,
  _0.sample_index AS sample_index,
  _0.validate AS validate,
  _0.run AS run,
  _0.size AS size,
  _0.scored AS scored,
  _0.mean AS mean,
  _0.std AS std,
  _0.min AS min,
  _0.max AS max,
  _0.spread AS spread,
  _0.best AS best,
  _0.worst AS worst,
  _0.passed AS passed,
  _0.zero_variance AS zero_variance,
  _0.response_tokens_mean AS response_tokens_mean,
  _0.response_tokens_min AS response_tokens_min,
  _0.response_tokens_max AS response_tokens_max,
  _0.turns_mean AS turns_mean,
  _0.duration_s_max AS duration_s_max,
  _0.flags AS flags,
  _0.errors AS errors,
  _0.superseded AS superseded,
  _0.pass_rule AS pass_rule,
  _0._is_int AS _is_int,
  CASE WHEN _0.scored > 0 THEN _0.passed / _0.scored END AS pass_rate
FROM (
  SELECT
    _judged.project AS project,
    _judged.experiment AS experiment,
    _judged.step AS step,
    _judged.sample_index AS sample_index,
    _judged.validate AS validate,
    _judged.run AS run,
    COUNT(*) AS size,
    COUNT(_judged.reward) AS scored,
    AVG(_judged.reward) AS mean,
    STDDEV_POP(_judged.reward) FILTER(WHERE
      isFinite(_judged.reward)) AS std,
    MIN(_judged.reward) AS min,
    if(countIf(isNaN(_judged.reward)) > 0, nan, max(_judged.reward)) AS max,
    if(countIf(isNaN(_judged.reward)) > 0, nan, max(_judged.reward)) - MIN(_judged.reward) AS spread,
    argMin(
      _judged.trajectory_id,
      (
        (
          (
            _judged.reward
          ) IS NULL
        ),
        -_judged.reward,
        (
          (
            _judged.rollout_n
          ) IS NULL
        ),
        _judged.rollout_n,
        (
          (
            _judged.start_ns
          ) IS NULL
        ),
        _judged.start_ns,
        (
          (
            _judged.trajectory_id
          ) IS NULL
        ),
        _judged.trajectory_id
      )
    ) FILTER(WHERE
      NOT (
        _judged.reward IS NULL
      ) AND NOT isNaN(_judged.reward)) AS best,
    argMin(
      _judged.trajectory_id,
      (
        (
          (
            _judged.reward
          ) IS NULL
        ),
        _judged.reward,
        (
          (
            _judged.rollout_n
          ) IS NULL
        ),
        _judged.rollout_n,
        (
          (
            _judged.start_ns
          ) IS NULL
        ),
        _judged.start_ns,
        (
          (
            _judged.trajectory_id
          ) IS NULL
        ),
        _judged.trajectory_id
      )
    ) FILTER(WHERE
      NOT (
        _judged.reward IS NULL
      ) AND NOT isNaN(_judged.reward)) AS worst,
    CASE
      WHEN COUNT(_judged.reward) = 0 OR COUNT(_judged._passed) > 0
      THEN COUNT(*) FILTER(WHERE
        _judged._passed)
    END AS passed,
    COUNT(_judged.reward) > 1
    AND COALESCE(
      isFinite(MIN(_judged.reward))
      AND MIN(_judged.reward) = if(countIf(isNaN(_judged.reward)) > 0, nan, max(_judged.reward)),
      FALSE
    ) AS zero_variance,
    AVG(_judged.response_tokens) AS response_tokens_mean,
    MIN(_judged.response_tokens) AS response_tokens_min,
    MAX(_judged.response_tokens) AS response_tokens_max,
    AVG(_judged.turns) AS turns_mean,
    MAX(_judged.duration_s) AS duration_s_max,
    arraySort(arrayDistinct(arrayFlatten(groupArray(_judged.flags)))) AS flags,
    COUNT(*) FILTER(WHERE
      _judged.status = 'error') AS errors,
    max(_judged.superseded) AS superseded,
    any(_judged.pass_rule) IGNORE NULLS AS pass_rule,
    min(_judged._is_int) AS _is_int
  FROM _judged AS _judged
  WHERE
    NOT (
      _judged.sample_index IS NULL
    )
    AND NOT (
      _judged._run_until_ns IS NULL
    )
  GROUP BY
    _judged.project,
    _judged.experiment,
    _judged.step,
    _judged.sample_index,
    _judged.validate,
    _judged.run
) AS _0
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW groups AS
SELECT
  _groups.project AS project,
  _groups.experiment AS experiment,
  _groups.step AS step,
  _groups.sample_index AS sample_index,
  _groups.validate AS validate,
  _groups.run AS run,
  _groups.size AS size,
  _groups.scored AS scored,
  _groups.mean AS mean,
  _groups.std AS std,
  _groups.min AS min,
  _groups.max AS max,
  _groups.spread AS spread,
  _groups.best AS best,
  _groups.worst AS worst,
  _groups.passed AS passed,
  _groups.pass_rate AS pass_rate,
  _groups.zero_variance AS zero_variance,
  _groups.response_tokens_mean AS response_tokens_mean,
  _groups.response_tokens_min AS response_tokens_min,
  _groups.response_tokens_max AS response_tokens_max,
  _groups.turns_mean AS turns_mean,
  _groups.duration_s_max AS duration_s_max,
  _groups.flags AS flags,
  _groups.errors AS errors,
  _groups.superseded AS superseded,
  _groups.pass_rule AS pass_rule,
  CASE
    WHEN match(_groups.sample_index, '^-?[0-9]+$')
    THEN toInt64OrNull(_groups.sample_index)
  END AS sample_number
FROM _groups AS _groups
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

-- (used by the views below)
CREATE OR REPLACE VIEW _group_records AS
SELECT
  _trajectories.trajectory_id AS trajectory_id,
  _trajectories.project AS project,
  _trajectories.experiment AS experiment,
  _trajectories.step AS step,
  _trajectories.sample_index AS sample_index,
  _trajectories.validate AS validate,
  _trajectories.run AS run,
  _trajectories.name AS name,
  _trajectories.status AS status,
  _trajectories.error AS error,
  _trajectories.start_ns AS start_ns,
  _trajectories.end_ns AS end_ns,
  _trajectories.tags AS tags,
  _trajectories.worker AS worker,
  (
    _trajectories.end_ns - _trajectories.start_ns
  ) / 1e9 AS duration_s,
  _trajectories.sample_is_int AS _is_int
FROM _trajectories AS _trajectories
WHERE
  _trajectories.is_group
QUALIFY
  ROW_NUMBER() OVER (
    PARTITION BY trajectory_id
    ORDER BY _trajectories.end_ns IS NULL, _trajectories.end_ns DESC, _trajectories.start_ns
  ) = 1
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;

CREATE OR REPLACE VIEW group_records AS
SELECT
  _group_records.trajectory_id AS trajectory_id,
  _group_records.project AS project,
  _group_records.experiment AS experiment,
  _group_records.step AS step,
  _group_records.sample_index AS sample_index,
  _group_records.validate AS validate,
  _group_records.run AS run,
  _group_records.name AS name,
  _group_records.status AS status,
  _group_records.error AS error,
  _group_records.start_ns AS start_ns,
  _group_records.end_ns AS end_ns,
  _group_records.tags AS tags,
  _group_records.worker AS worker,
  _group_records.duration_s AS duration_s
FROM _group_records AS _group_records
SETTINGS join_use_nulls = 1, use_hive_partitioning = 0;
