"""The public names and signatures, written out, so that a change of them shows in review."""

from __future__ import annotations

import inspect

import rolltrace
from rolltrace import errors

SIGNATURES = {
    "amend_transition": "(target: 'str | TrajectoryHandle', *, turn: 'int | None' = None, reward: 'Any' = Ellipsis, "
    "episode_done: 'Any' = Ellipsis, metrics: 'Any' = Ellipsis, logs: 'Any' = Ellipsis, stop_reason: 'Any' = Ellipsis, "
    "**more: 'Any') -> 'None'",
    "backfill": "(trajectories: 'Iterable[Which]', traces: 'Mapping[Any, MadeTrace] | "
    "Iterable[tuple[Which, MadeTrace]]', *, rewards: 'Mapping[Any, Any] | Iterable[tuple[Which, Any]] | None' = None) "
    "-> 'None'",
    "choose_samples": "(sample_indices: 'Iterable[T]', *, limit: 'int | None' = None) -> 'set[T]'",
    "current_context": "() -> 'str'",
    "flush": "(timeout: 'float | None' = 30.0) -> 'bool'",
    "init": "(project_name: 'str | Mapping[str, Any] | None' = None, experiment_name: 'str | None' = None, "
    "backend: 'str | list[str] | tuple[str, ...] | Literal[Unset.UNSET] | None' = unset, *, "
    "config: 'Mapping[str, Any] | None' = None, run: 'str | None' = None, "
    "store: 'str | os.PathLike[str] | None' = None, journal: 'str | os.PathLike[str] | None' = None, "
    "token2text: 'bool | None' = None, tokenizer: 'Any' = None, "
    "max_samples_per_step_per_worker: 'int | None' = None, sample_seed: 'int | None' = None, "
    "drain: \"Literal['process', 'thread', 'off'] | None\" = None, checks: 'str | None' = None, "
    "max_bytes: 'int | str | None' = None, max_items: 'int | None' = None, max_depth: 'int | None' = None, "
    "max_array_bytes: 'int | str | None' = None, max_stream_items: 'int | None' = None, "
    "max_unsent_bytes: 'int | str | None' = None, segment_bytes: 'int | str | None' = None, "
    "durable: 'bool | None' = None, journal_mode: \"Literal['auto', 'mmap', 'append'] | None\" = None, "
    "share: \"Literal['private', 'group'] | None\" = None, pass_term: 'str | None' = None, "
    "pass_threshold: 'float | None' = None, quiet: 'bool | None' = None, "
    "**unknown: 'NoReturn') -> 'None'",
    "instrument": "(*names: 'str') -> 'None'",
    "next_rollout_n": "(sample_index: 'SampleIndex | None', step: 'int | None' = None, *, validate: 'bool' = False, "
    "count: 'int' = 1) -> 'int'",
    "proxied_env": "(trajectory: 'TrajectoryHandle | None' = None, *, proxy: 'str | None' = None) -> 'dict[str, str]'",
    "uninstrument": "(*names: 'str') -> 'None'",
    "open": "(store: 'str | os.PathLike[str] | None' = None) -> 'Store'",
    "rollout_trace_attr": "(sample_index: 'SampleIndex | None' = None, step: 'int | None' = None, "
    "rollout_n: 'int | None' = None, name: 'str' = 'rollout_trace', validate: 'bool' = False, trace: 'bool' = True, "
    "**tags: 'Any') -> 'None'",
    "rollout_trace_group": "(sample_index: 'SampleIndex | None' = None, step: 'int | None' = None, *, "
    "validate: 'bool' = False, name: 'str' = 'group', trace: 'bool' = True, **tags: 'Any') -> 'None'",
    "rollout_trace_op": "(fn: 'Any' = None, /, *, name: 'str | None' = None, kind: 'OpKind' = 'other', "
    "inputs: 'Selection' = True, outputs: 'Selection' = True) -> 'Any'",
    "score": "(target: 'Target', name: 'str', value: 'Any', *, terms: 'Mapping[str, Any] | None' = None, "
    "reason: 'str | None' = None, trained_step: 'int | None' = None) -> 'None'",
    "shutdown": "() -> 'None'",
    "stats": "() -> 'Stats'",
    "trace_env": "(env: 'E', *, state: 'Callable[[E], Any] | None' = None, "
    "prompt: 'Callable[[E], Any] | None' = None, response: 'Callable[[E, Any], Any] | None' = None, "
    "reward_data: 'Callable[[E, Any], Any] | None' = None, extra: 'Callable[[E, Any], Any] | None' = None) -> 'E'",
    "use_context": "(text: 'str | None') -> 'None'",
    "view": "(shown: 'Store | Trajectory | Comparison | Result | Sequence[Trajectory] | str | os.PathLike[str] | None' "
    "= None, *, store: 'str | os.PathLike[str] | None' = None, height: 'int' = 640) -> 'Page'",
}
CLASSES = {"RolloutTrace", "RolloutTraceConfig", "RolltraceError", "Stats", "TraceGroup", "TrajectoryHandle"}


def test_the_public_names_are_these() -> None:
    assert set(rolltrace.__all__) == set(SIGNATURES) | CLASSES
    assert all(hasattr(rolltrace, name) for name in rolltrace.__all__)


def test_their_signatures_are_these() -> None:
    found = {name: str(inspect.signature(getattr(rolltrace, name))) for name in SIGNATURES}
    assert found == SIGNATURES


def test_the_names_and_signatures_of_all_public_modules_are_those_of_the_snapshot() -> None:
    from tools.gen_api import SIGNATURES as SNAPSHOT
    from tools.gen_api import signatures

    assert SNAPSHOT.read_text().splitlines() == signatures().splitlines(), "if this change is intended: make gen"


def test_the_handle_of_a_trajectory_has_these_methods() -> None:
    public = {name for name, _ in inspect.getmembers(rolltrace.TrajectoryHandle) if not name.startswith("_")}
    assert {"trajectory_id", "id", "tag", "reward", "transition", "amend_transition", "note", "traced"} <= public


def test_every_error_is_a_rolltrace_error_and_the_builtin_a_caller_would_expect() -> None:
    found = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)]
    found = [each for each in found if not issubclass(each, Warning)]
    assert {each.__name__: each.__mro__[-4].__name__ for each in found if each is not errors.RolltraceError} == {
        "ConfigError": "ValueError",
        "BackendError": "ValueError",
        "MissingExtraError": "ImportError",
        "ContextError": "ValueError",
        "OutageError": "OSError",
        "QueryError": "ValueError",
        "FilterError": "ValueError",
        "NotFoundError": "LookupError",
        "StoppedError": "ValueError",
        "StoreError": "OSError",
        "FormatError": "OSError",
    }
    assert all(issubclass(each, errors.RolltraceError) for each in found)
