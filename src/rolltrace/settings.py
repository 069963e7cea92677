"""Every setting once: its name, type, default and meaning.

Arguments of `init`, environment variables (`ROLLTRACE_<NAME>`), Hydra keys and the page
docs/reference/config.md are all derived from the fields of `Settings`.
Precedence: argument, then config, then environment, then default. None means "not given".
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rolltrace._address import home_folder, is_address
from rolltrace._amounts import size_of
from rolltrace._frameworks import frameworks
from rolltrace.errors import ConfigError
from rolltrace.flags import ALL, check_selection

MIB = 1 << 20
MAX_DEPTH = 128
"""How deep values are kept, if no smaller number is set: every JSON library and every reader can take that."""
DRAIN_MODES = ("process", "thread", "off")
SHARES = ("private", "group")
OFF = "off"
"""Instead of a backend: no tracing."""
ENV_PREFIX = "ROLLTRACE_"
OTHER_VARIABLES = ("ROLLTRACE_PROXY", "ROLLTRACE_STRICT", "ROLLTRACE_VIEW_URL", "ROLLTRACE_STORE_TIMEOUT")


def _setting(default: Any, check: Callable[[str, Any], Any], meaning: str) -> Any:
    return field(default=default, metadata={"check": check, "meaning": meaning})


def _wrong(name: str, value: object, wanted: str) -> ConfigError:
    return ConfigError(f"{name} must be {wanted}, not {value!r}")


def _name(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(name, value, "a non-empty string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _wrong(name, value, "text that UTF-8 can hold") from None
    return value


def _backends(name: str, value: Any) -> tuple[str, ...] | None:
    if value == OFF:
        return None
    names = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(names, Iterable) or isinstance(names, Mapping | bytes):
        raise _wrong(name, value, "a backend name or a list of names, such as 'rolltrace'")
    names = list(names)
    if not names or not all(isinstance(each, str) and each for each in names):
        raise _wrong(name, value, "a backend name or a list of names, such as 'rolltrace'")
    return tuple(dict.fromkeys(names))


def _store(name: str, value: Any) -> Path:
    """The folder of a store; of one in a bucket, the folder that stands for it here."""
    return home_folder(value) if is_address(value) else _folder(name, value)


def _folder(name: str, value: Any) -> Path:
    if not isinstance(value, str | os.PathLike) or not os.fspath(value):
        raise _wrong(name, value, "a folder path")
    path = os.path.expanduser(os.fspath(value))
    if path.startswith("~"):
        raise _wrong(name, value, "a folder path without '~', because this user has no home folder")
    return Path(os.path.abspath(path))


def _tokenizer(name: str, value: Any) -> Any:
    """A tokenizer as it is, or the path of a tokenizer.json."""
    if not isinstance(value, str | os.PathLike):
        if any(callable(getattr(value, each, None)) for each in ("decode", "id_to_token")):
            return value
        raise _wrong(name, type(value).__name__, "a tokenizer, a tokenizer.json or a folder with one in it")
    path = _folder(name, value)
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        hint = "; pass the tokenizer object itself" if path.is_dir() else ""
        raise ConfigError(f"{name}: there is no file {str(file)!r}{hint}")
    if not os.access(file, os.R_OK):
        raise ConfigError(f"{name}: the file {str(file)!r} is not readable")
    return file


def _switch(name: str, value: Any) -> bool:
    if isinstance(value, str):
        word = value.strip().lower()
        if word in ("1", "true", "yes", "on"):
            return True
        if word in ("0", "false", "no", "off", ""):
            return False
    if isinstance(value, bool):
        return value
    raise _wrong(name, value, "true or false")


def _count(name: str, value: Any) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise _wrong(name, value, "a whole number, 0 or more")
    return number


def _number(name: str, value: Any) -> float:
    try:
        number = float(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise _wrong(name, value, "a finite number")
    return float(number)


def _one_of(*choices: str) -> Callable[[str, Any], str]:
    def check(name: str, value: Any) -> str:
        if value not in choices:
            raise _wrong(name, value, "one of " + ", ".join(map(repr, choices)))
        return str(value)

    return check


@dataclass(frozen=True)
class Settings:
    """The settings of one `init`, checked and with defaults filled in."""

    project_name: str = _setting("default", _name, "what the work is called")
    experiment_name: str = _setting("default", _name, "what this run of it is called")
    backend: tuple[str, ...] | None = _setting(
        None,
        _backends,
        "where traces go: `rolltrace` (the embedded store), another installed backend, or several; `off` for none. "
        "Unset means `rolltrace` in `rolltrace.init`, and `off` in a config and in `RolloutTraceConfig`",
    )
    run: str | None = _setting(
        None,
        _name,
        "one id for all processes of one training job, so that an experiment that is started again is not mixed with "
        "what it was before; unset means the Ray job, the job of torchrun or Slurm, or an id that the first `init` "
        "makes and child processes inherit",
    )
    store: Path = _setting(Path("~/.rolltrace"), _store, "the store: a folder, or s3://bucket/prefix")  # noqa: RUF009 - it is a field
    journal: Path | None = _setting(  # noqa: RUF009 - it is a field
        None,
        _folder,
        "where journals are kept, such as a local NVMe disk, when the store is on a network file system; the store "
        "remembers it for each host. Unset means in the store, or where the store says",
    )
    token2text: bool = _setting(False, _switch, "keep decoded text beside token ids")
    tokenizer: Any = _setting(  # noqa: RUF009 - it is a field
        None,
        _tokenizer,
        "the tokenizer of ops whose object has none: a tokenizer.json, a folder with one in it or, as an argument, "
        "a tokenizer; turns `token2text` on unless that is set",
    )
    max_samples_per_step_per_worker: int | None = _setting(
        None,
        _count,
        "how many samples each worker traces in a step, with all their rollouts, chosen by a hash of the sample; "
        "unset means all",
    )
    sample_seed: int = _setting(
        0, _count, "which samples these are: another number chooses others, the same one the same in every run"
    )
    drain: str = _setting(
        "process",
        _one_of(*DRAIN_MODES),
        "where journals are turned into the store: a separate `process`, a `thread`, "
        "or `off` (by hand, with the command line)",
    )
    checks: str = _setting(
        ALL,
        check_selection,
        "which problems are looked for (docs/reference/flags.md): `all`, `off`, names to keep, or names to drop, each "
        "with a leading `-`",
    )
    max_bytes: int = _setting(
        32 * MIB,
        size_of,
        "the most bytes of inputs, and of outputs, that one op keeps; what is over is cut and marked",
    )
    max_items: int | None = _setting(
        None,
        _count,
        "the most items kept of one container (lists of plain numbers are exempt); unset means all. "
        "When set, values are walked in Python, which is slower",
    )
    max_depth: int = _setting(
        MAX_DEPTH,
        _count,
        f"how deep nested values are kept, {MAX_DEPTH} levels at most; what is deeper is cut and marked. "
        "When set lower, values are walked in Python, which is slower",
    )
    max_array_bytes: int = _setting(
        MIB,
        size_of,
        "arrays and tensors of two or more dimensions over this size keep shape, dtype and statistics only",
    )
    max_stream_items: int = _setting(
        1000, _count, "how many items of a generator are kept, of a model's all up to `max_bytes`; all are counted"
    )
    max_unsent_bytes: int = _setting(
        8 << 30,
        size_of,
        "how much undrained journal may lie on this host's disk before records are counted as lost",
    )
    segment_bytes: int = _setting(16 * MIB, size_of, "the size of one journal file")
    durable: bool = _setting(
        False,
        _switch,
        "wait for the disk at the end of each trajectory, so that a power cut cannot take it back; "
        "without it only a crash of the whole machine can, and nothing waits",
    )
    share: str | None = _setting(
        None,
        _one_of(*SHARES),
        "who may read and write a new store: `private` (its owner alone) or `group` (the folder's group too); unset "
        "means as the store is, and `private` for a new one",
    )

    pass_term: str | None = _setting(
        None,
        _name,
        "what pass means: the reward term that must reach `pass_threshold` (1 if that is unset), such as `correct`; "
        "stored with the experiment (docs/howto/pass.md)",
    )
    pass_threshold: float | None = _setting(
        None,
        _number,
        "what pass means: the least reward that passes or, with `pass_term`, the least value of that term; unset means "
        "that nobody has chosen, and rewards above 0 are counted",
    )

    quiet: bool = _setting(False, _switch, "do not say at the start where traces go")

    @classmethod
    def gather(cls, arguments: Mapping[str, Any], config: object = None) -> Settings:
        """Settings from arguments, a Hydra config (or plain dict) and the environment, in this precedence."""
        from_config = {} if config is None else read_config(config)
        checked: dict[str, Any] = {}
        for each in fields(cls):
            variable = variable_of(each.name)
            for label, value in (
                (each.name, arguments.get(each.name)),
                (f"{each.name} (in the config)", from_config.get(each.name)),
                (variable, os.environ.get(variable) or None),
            ):
                if value is not None:
                    checked[each.name] = each.metadata["check"](label, value)
                    break
        if checked.get("backend") and "store" not in checked:
            checked["store"] = _folder("store", cls.store)  # not at import: an account may have no home
        if "tokenizer" in checked:
            checked.setdefault("token2text", True)
        settings = cls(**checked)
        if settings.segment_bytes < 64 << 10:
            raise _wrong("segment_bytes", settings.segment_bytes, "at least 64 KiB")
        return settings

    def difference(self, other: Settings) -> dict[str, tuple[Any, Any]]:
        """Each setting in which the two differ: name -> (mine, theirs)."""
        pairs = {each.name: (getattr(self, each.name), getattr(other, each.name)) for each in fields(self)}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def variable_of(setting: str) -> str:
    """The environment variable of a setting: `store` -> `ROLLTRACE_STORE`, without a final `_name`."""
    return ENV_PREFIX + setting.removesuffix("_name").upper()


_ARGUMENTS = (
    "project_name", "experiment_name", "backend", "run", "store", "token2text", "tokenizer",
    "max_samples_per_step_per_worker", "drain", "durable", "share", "quiet",
)  # fmt: skip
"""Settings that are arguments of `init`; the others are given as its `limits`."""


def spread_limits(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `init`, with each of its `limits` as if it were an argument.

    Raises:
        ConfigError: one of them belongs to the others.
    """
    plain = {name: value for name, value in arguments.items() if name not in ("limits", "config")}
    limits = arguments.get("limits")
    if limits is None:
        limits = {}
    if not isinstance(limits, Mapping):
        raise _wrong("limits", limits, "a mapping, such as {'max_bytes': '8MiB'}")
    check_names({*plain, *limits})
    for name in plain:
        if name not in _ARGUMENTS:
            raise ConfigError(f"{name} is not an argument of init: limits={{{name!r}: ...}} or {variable_of(name)}")
    for name in limits:
        if name in _ARGUMENTS:
            raise ConfigError(f"{name} is an argument of init, not one of its limits")
    return {**plain, "config": arguments.get("config"), **limits}


def check_names(names: Iterable[str]) -> None:
    """Raise a ConfigError for the first of these that is no setting."""
    settings = [each.name for each in fields(Settings)]
    unknown = sorted(set(names) - set(settings))
    if unknown:
        near = nearest(unknown[0], settings)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        raise ConfigError(f"init has no setting {unknown[0]!r}{hint} there are: {', '.join(sorted(settings))}")


def unknown_variables() -> dict[str, list[str]]:
    """Environment variables that look like ours but are not, each with the nearest real names."""
    variables = [variable_of(each.name) for each in fields(Settings)] + list(OTHER_VARIABLES)
    unknown = [name for name in os.environ if name.startswith(ENV_PREFIX) and name not in variables]
    return {name: _nearest_variable(name, variables) for name in unknown}


def _nearest_variable(variable: str, variables: list[str]) -> list[str]:
    words = [name.removeprefix(ENV_PREFIX) for name in variables]  # the prefix alone would make all of them near
    return [ENV_PREFIX + word for word in nearest(variable.removeprefix(ENV_PREFIX), words)]


def nearest(word: str, words: Iterable[str]) -> list[str]:
    """The one that is most like the word, if any is."""
    import difflib  # needed only for a mistake

    return difflib.get_close_matches(word, list(words), 1)


def read_config(config: object) -> dict[str, Any]:
    """Our settings out of a trainer's config: from the sections that a framework keeps them in."""
    try:
        return _read_sections(config)
    except ConfigError:
        raise
    except Exception as error:  # OmegaConf's own, such as an interpolation that leads nowhere
        raise ConfigError(f"the config cannot be read: {error}") from error


def _read_sections(config: object) -> dict[str, Any]:
    all_keys = [framework.config_keys for framework in frameworks() if framework.config_keys is not None]
    for keys in all_keys:
        own, names = _section(config, keys.settings), _section(config, keys.names)
        if own is not None or names is not None:
            return {
                **_values(names, ("project_name", "experiment_name")),
                **_values(own, [each.name for each in fields(Settings)]),
            }
    shapes = " nor ".join(f"{'.'.join(keys.settings)} nor {'.'.join(keys.names)}" for keys in all_keys)
    raise ConfigError(f"the config holds neither {shapes}; pass the whole Hydra config, or a dict of that shape")


def _section(config: object, path: Iterable[str]) -> Mapping[str, Any] | None:
    for key in path:
        if not isinstance(config, Mapping):
            return None
        config = config.get(key)
    return config if isinstance(config, Mapping) else None


def _values(section: Mapping[str, Any] | None, names: Iterable[str]) -> dict[str, Any]:
    values = {} if section is None else {name: section.get(name) for name in names}
    return {name: value for name, value in values.items() if value is not None}
