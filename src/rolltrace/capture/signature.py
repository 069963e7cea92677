"""What is known of a traced function before it is called: its name, kind, parameters, and what to record.

All looking is done at decoration; binding a call is then a few dict operations.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any

from rolltrace.errors import ConfigError
from rolltrace.record import OP_KINDS, Opaque, OpKind, clean_text

Selection = bool | Collection[str] | Callable[[Any], Any]
"""What to record: True for all, False for nothing, names to keep, names to drop (each with a leading '-'),
or a function that makes the recorded value."""

_MAX_FIELDS = 10_000
_RECEIVERS = ("self", "cls", "mcs")
_MISSING = Opaque("rolltrace.missing", {}, "the call did not give this argument").ext()


class Call:
    """A traced function, described once. Pickles as the function and its options."""

    __slots__ = (
        "_arity", "_extra_keywords", "_extra_positional", "_fn", "_keywords", "_options", "_positional", "_template",
        "has_receiver", "kind", "name", "select_inputs", "select_outputs",
    )  # fmt: skip

    def __init__(
        self,
        fn: Callable[..., Any],
        *,
        name: str | None = None,
        kind: OpKind = "other",
        inputs: Selection = True,
        outputs: Selection = True,
        receiver: bool | None = None,
    ) -> None:
        self._fn = fn
        self._options = {
            "name": name,
            "kind": kind,
            "inputs": inputs,
            "outputs": outputs,
            "receiver": receiver,
        }
        if name is not None and not isinstance(name, str):
            raise ConfigError(f"name of an op must be a string, not {name!r}")
        self.name = clean_text(name or getattr(fn, "__qualname__", None) or type(fn).__qualname__)
        if kind not in OP_KINDS:
            hint = _did_you_mean(str(kind), OP_KINDS)
            raise ConfigError(f"kind of op {self.name!r} must be one of {', '.join(OP_KINDS)}, not {kind!r}{hint}")
        self.kind = kind
        self._read_signature(receiver)
        self.select_inputs = selector(inputs, f"inputs of op {self.name!r}", self._selectable())
        self.select_outputs = selector(outputs, f"outputs of op {self.name!r}", None)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._fn, self._options)

    def _read_signature(self, receiver: bool | None) -> None:
        try:
            parameters = list(inspect.signature(self._fn).parameters.values())
        except (TypeError, ValueError):  # some builtins have none
            parameters = []
        first = parameters[0] if parameters else None
        self.has_receiver = first is not None and (first.name in _RECEIVERS if receiver is None else receiver)
        if self.has_receiver:
            parameters = parameters[1:]
        kinds = inspect.Parameter
        self._positional = tuple(
            p.name for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        )
        named = [p for p in parameters if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
        self._template = {p.name: _MISSING if p.default is p.empty else p.default for p in named}
        self._keywords = frozenset(p.name for p in named if p.kind is not kinds.POSITIONAL_ONLY)
        self._extra_positional = next((p.name for p in parameters if p.kind is kinds.VAR_POSITIONAL), "args")
        self._extra_keywords = next((p.name for p in parameters if p.kind is kinds.VAR_KEYWORD), "kwargs")
        self._arity = len(self._positional) if len(self._positional) == len(self._template) else -1

    def _selectable(self) -> set[str] | None:
        return {*self._template, self._extra_positional, self._extra_keywords} if self._template else None

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by parameter name, defaults included, in the order of the signature.

        Never raises: a call that does not fit the signature is recorded as it was made.
        """
        if self.has_receiver:
            args = args[1:]
        if not kwargs and len(args) == self._arity:
            if self._arity == 1:
                return {self._positional[0]: args[0]}  # most tools; a third of the cost of a zip
            return dict(zip(self._positional, args))
        inputs = self._template.copy()
        if args:
            inputs.update(zip(self._positional, args))
        if len(args) > len(self._positional):
            inputs[self._extra_positional] = args[len(self._positional) :]
        if kwargs:
            if self._keywords.issuperset(kwargs):
                inputs.update(kwargs)
            else:
                inputs.update((key, value) for key, value in kwargs.items() if key in self._keywords)
                inputs[self._extra_keywords] = {k: v for k, v in kwargs.items() if k not in self._keywords}
        return inputs


def _rebuild(fn: Callable[..., Any], options: dict[str, Any]) -> Call:
    return Call(fn, **options)


def selector(chosen: Selection, what: str, parameters: set[str] | None) -> Callable[[Any], Any] | None:
    """A function from a value to the part of it to record; None for the whole."""
    if chosen is True or chosen is None:
        return None
    if chosen is False:
        return _nothing
    if callable(chosen):
        return chosen
    names = [chosen] if isinstance(chosen, str) else list(chosen) if isinstance(chosen, Collection) else [None]
    if not all(isinstance(name, str) and name.strip("-") for name in names):
        raise ConfigError(f"{what} must be True, False, names or a function, not {chosen!r}")
    dropped = {name[1:] for name in names if name.startswith("-")}
    kept = {name for name in names if not name.startswith("-")}
    if dropped and kept:
        raise ConfigError(f"{what} mix names to keep and names to drop ({chosen!r}); give one or the other")
    unknown = sorted((dropped | kept) - parameters) if parameters else []
    if unknown:
        hint = _did_you_mean(unknown[0], parameters or ()) or f"; there are: {', '.join(sorted(parameters or ()))}"
        raise ConfigError(f"{what} name no parameter {unknown[0]!r}{hint}")
    return lambda value: _choose(value, kept, dropped)


def _did_you_mean(word: str, candidates: Collection[str]) -> str:
    import difflib  # needed only for a mistake

    near = difflib.get_close_matches(word, candidates, 1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _nothing(value: Any) -> None:
    return None


def _choose(value: Any, kept: set[str], dropped: set[str]) -> Any:
    fields = _fields_of(value)
    if fields is None:
        return value
    first = islice(fields.items(), _MAX_FIELDS)  # a mapping of the user's own may never end
    return {name: field for name, field in first if (name in kept if kept else name not in dropped)}


def _fields_of(value: Any) -> Mapping[Any, Any] | None:
    if isinstance(value, Mapping):
        return value
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if dataclasses.is_dataclass(value):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if hasattr(value, f.name)}
    return getattr(value, "__dict__", None)
