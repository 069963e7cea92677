"""The public names and signatures, written out, so that a change of them shows in review."""

from __future__ import annotations

import inspect

import rolltrace
from rolltrace import errors

SIGNATURES = {
    "current_context": "() -> 'str'",
    "flush": "(timeout: 'float | None' = 30.0) -> 'bool'",
    "init": "(project_name: 'str | Mapping[str, Any] | None' = None, experiment_name: 'str | None' = None, "
    "backend: 'str | list[str] | tuple[str, ...] | Literal[Unset.UNSET] | None' = unset, *, "
    "config: 'Mapping[str, Any] | None' = None, run: 'str | None' = None, "
    "store: 'str | os.PathLike[str] | None' = None, token2text: 'bool | None' = None, tokenizer: 'Any' = None, "
    "max_samples_per_step_per_worker: 'int | None' = None, "
    "drain: \"Literal['process', 'thread', 'off'] | None\" = None, durable: 'bool | None' = None, "
    "share: \"Literal['private', 'group'] | None\" = None, quiet: 'bool | None' = None, "
    "limits: 'Mapping[str, Any] | None' = None, **unknown: 'NoReturn') -> 'None'",
    "instrument": "(*names: 'str') -> 'None'",
    "proxied_env": "(trajectory: 'TrajectoryHandle | None' = None, *, proxy: 'str | None' = None) -> 'dict[str, str]'",
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
CLASSES = {"RolloutTrace", "RolloutTraceConfig", "RolltraceError"}


def test_the_public_names_are_these() -> None:
    assert set(rolltrace.__all__) == set(SIGNATURES) | CLASSES
    assert len(rolltrace.__all__) <= 18
    assert all(hasattr(rolltrace, name) for name in rolltrace.__all__)


def test_their_signatures_are_these() -> None:
    found = {name: str(inspect.signature(getattr(rolltrace, name))) for name in SIGNATURES}
    assert found == SIGNATURES


def test_init_has_at_most_14_parameters() -> None:
    names = [name for name in inspect.signature(rolltrace.init).parameters if name != "unknown"]
    assert len(names) <= 14


def test_the_names_and_signatures_of_all_public_modules_are_those_of_the_snapshot() -> None:
    from tools.gen_api import SIGNATURES as SNAPSHOT
    from tools.gen_api import signatures

    assert SNAPSHOT.read_text().splitlines() == signatures().splitlines(), "if this change is intended: make gen"


def test_the_handle_of_a_trajectory_has_these_methods() -> None:
    public = {name for name, _ in inspect.getmembers(rolltrace.capture.TrajectoryHandle) if not name.startswith("_")}
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
