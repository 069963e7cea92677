"""What each type of user value becomes when msgspec does not know it.

Looked up by type, decided once per type. No library is imported to recognise its types, and no user
code runs except what a mapping or sequence needs to be iterated: a `__repr__` may raise, sleep, or wait
for a GPU. Converters return something that msgspec can encode, or that another converter takes further.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime
import itertools
import pathlib
import re
import sys
import types
from collections.abc import Callable, Iterable, Mapping, Set, ValuesView
from typing import Any

import xxhash
from msgspec import Struct
from msgspec.msgpack import Ext

from rolltrace._guard import pass_on_signals
from rolltrace.record.schema import clean_text
from rolltrace.record.values import (
    ARRAY_KINDS,
    Array,
    ArraySummary,
    Image,
    Opaque,
    big_int,
    complex_number,
)

Converter = Callable[[Any], Any]
BlobKeeper = Callable[[str, dict[str, Any], bytes], None]
_MOST_FIELDS = 16
_MOST_TYPES = 4096
_LEAVES = frozenset({str, int, float, bool, bytes, type(None)})
_SECRET = re.compile(r"key|token|secret|passw|auth|credential|cookie", re.IGNORECASE)
_LONGEST_FIELD = 200
_SAMPLED_VALUES = 65_536


def opaque(value: object, reason: str = "") -> Ext:
    """A short typed marker: the type and those public fields that are plain and short."""
    fields: dict[str, Any] = {}
    try:
        inside = object.__getattribute__(value, "__dict__")
        for name, field in itertools.islice(inside.items(), _MOST_FIELDS):
            if type(name) is str and not name.startswith("_") and _is_plain(field) and not _SECRET.search(name):
                fields[_short(name)] = _short(field) if type(field) is str else field
    except Exception:  # it has none, or hides them
        pass_on_signals()
    return Opaque(type_name(type(value)), fields, reason).ext()


def type_name(kind: type) -> str:
    try:
        return _short(f"{kind.__module__}.{kind.__qualname__}")
    except Exception:  # a metaclass may do anything
        return "unknown"


def _is_plain(field: object) -> bool:
    if type(field) is int:
        return -(1 << 63) <= field < 1 << 64
    return type(field) in (float, bool, str, type(None))


def _short(text: str) -> str:
    return clean_text(text[:_LONGEST_FIELD])


def private(value: Any) -> Any:
    """The value with containers of our own, which no other thread can change; objects to convert stay as they are."""
    kind = type(value)
    if kind in _LEAVES:
        return value
    if issubclass(kind, dict):
        return {key: private(item) for key, item in dict.copy(value).items()}
    if issubclass(kind, list):
        copy = list.copy(value)
        return copy if _LEAVES.issuperset(map(type, copy)) else [private(item) for item in copy]
    if issubclass(kind, tuple):
        return [private(item) for item in tuple.__iter__(value)]
    if issubclass(kind, set | frozenset):
        return [private(item) for item in kind.copy(value)]
    if dataclasses.is_dataclass(kind):
        return _fields(value, [each.name for each in dataclasses.fields(kind)])
    if hasattr(kind, "__attrs_attrs__"):
        return _fields(value, [each.name for each in kind.__attrs_attrs__ if not each.name.startswith("_")])
    if issubclass(kind, Struct):
        return _fields(value, kind.__struct_fields__)
    return value


def _fields(value: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: private(getattr(value, name)) for name in names if hasattr(value, name)}


class Converters:
    """The converter of every type seen so far, for one recorder and its limits."""

    def __init__(self, max_array_bytes: int, max_bytes: int, keep_blob: BlobKeeper) -> None:
        self._max_array_bytes = max_array_bytes
        self._max_bytes = max_bytes
        self._keep_blob = keep_blob
        self._known: dict[type, Converter] = {}
        self.cuts = 0
        """How many arrays were over a limit so far."""

    def __call__(self, value: Any) -> Any:
        """msgspec's `enc_hook`. Never raises: one strange value costs its marker, not the record."""
        kind = type(value)
        try:
            converter = self._known.get(kind)
            if converter is None:
                if len(self._known) >= _MOST_TYPES:
                    self._known.clear()  # a program that makes types as it goes must be able to forget them
                converter = self._known[kind] = self._choose(kind)
            made = converter(value)
            return private(made) if type(made) in (dict, list) else made
        except RecursionError:
            raise  # a cycle, most likely: the walk finds it
        except Exception as fault:
            pass_on_signals()
            return opaque(value, f"{type(fault).__name__} while it was recorded")

    def _choose(self, kind: type) -> Converter:
        for base, converter in _BY_BASE.items():
            if issubclass(kind, base):
                return converter
        lineage = [(cls.__module__.partition(".")[0], cls.__name__) for cls in kind.__mro__]
        if ("pydantic", "RootModel") in lineage:
            return _pydantic_root
        if ("pydantic", "BaseModel") in lineage:
            return _pydantic
        if ("pydantic", "_BaseUrl") in lineage:
            return str
        if ("numpy", "generic") in lineage:
            return _numpy_scalar
        if ("numpy", "MaskedArray") in lineage:
            return lambda value: value.tolist()
        if ("numpy", "ndarray") in lineage:
            return self._numpy
        if ("torch", "Tensor") in lineage:
            return self._tensor
        if ("PIL", "Image") in lineage:
            return self._image
        if issubclass(kind, Mapping):
            return dict
        if issubclass(kind, Set | collections.deque | ValuesView) or ("omegaconf", "ListConfig") in lineage:
            return list
        if hasattr(kind, "shape") and hasattr(kind, "dtype"):  # jax, cupy, tensorflow: perhaps on a device
            return lambda value: _summary(value, None)
        return opaque

    def _too_large(self, dimensions: int, size_bytes: int) -> bool:
        """One dimension may be token ids or logprobs: kept exactly for as long as a record can hold them."""
        over = size_bytes > (self._max_array_bytes if dimensions > 1 else self._max_bytes)
        self.cuts += over
        return over

    def _numpy(self, value: Any) -> Any:
        if value.dtype.kind in "biufc" and self._too_large(value.ndim, value.nbytes):
            return _summary(value, _statistics(_sample(value)))
        if value.dtype.kind == "M":  # as text: Python has no nanoseconds
            return value.astype(str).tolist()
        if value.dtype.str[1:] not in ARRAY_KINDS:  # text, objects, records, long doubles
            return value.tolist()
        return Array(value.dtype.str, value.shape, value.tobytes()).ext()

    def _tensor(self, value: Any) -> Any:
        # Only metadata is read before the device is known: touching values would wait for the GPU.
        if value.device.type != "cpu" or str(value.layout) != "torch.strided":
            return _summary(value, None)
        try:
            return self._cpu_tensor(value.detach())
        except Exception:  # float8, quantized, fake: no values that NumPy could hold
            pass_on_signals()
            return _summary(value, None)

    def _cpu_tensor(self, value: Any) -> Any:
        if value.dim() == 0:
            return value.item()
        if str(value.dtype) != "torch.bfloat16":
            found = value.resolve_conj().resolve_neg().numpy()
            if self._too_large(found.ndim, found.nbytes):
                return _summary(value, _statistics(_sample(found)))
            return Array(found.dtype.str, found.shape, found.tobytes()).ext()
        bits = value.view(sys.modules["torch"].int16).numpy()
        if self._too_large(bits.ndim, bits.nbytes):
            return _summary(value, _statistics((_sample(bits).astype("u4") << 16).view("f4")))
        return Array("bfloat16", bits.shape, bits.tobytes()).ext()

    def _image(self, value: Any) -> Any:
        pixels = value.tobytes()
        info = {"mode": value.mode, "size": value.size, "palette": bytes(value.getpalette() or b"")}
        # The hash covers what the pixels mean, or two sizes of one plain colour would be one image.
        content = xxhash.xxh3_128(pixels)
        content.update(repr((info["mode"], info["size"], info["palette"])).encode())
        name = content.hexdigest()
        self._keep_blob(name, info, pixels)
        return Image(name, value.mode, tuple(value.size), value.format).ext()


def _summary(value: Any, statistics: dict[str, float] | None) -> Any:
    shape = tuple(int(size) for size in value.shape)
    device = str(getattr(value, "device", "cpu"))
    return ArraySummary(type_name(type(value)), str(value.dtype), shape, device, statistics).ext()


def _sample(found: Any) -> Any:
    """Values taken evenly, so that a huge array does not hold up the rollout."""
    return found.flat[:: -(-found.size // _SAMPLED_VALUES) or 1]


def _statistics(sample: Any) -> dict[str, float] | None:
    if sample.dtype.kind == "c" or not sample.size:
        return None
    with sys.modules["numpy"].errstate(all="ignore"):
        values = sample.astype("f8")
        return {
            "min": float(values.min()),
            "max": float(values.max()),
            "mean": float(values.mean()),
            "std": float(values.std()),
            "sampled": int(values.size),
        }


def _pydantic(value: Any) -> Any:
    fields = vars(value)
    extra = getattr(value, "__pydantic_extra__", None)
    return {**fields, **extra} if extra else fields


def _pydantic_root(value: Any) -> Any:
    return vars(value)["root"]


def _numpy_scalar(value: Any) -> Any:
    if value.dtype.kind == "M":
        return str(value)
    plain = value.item()
    if type(plain) is not type(value):
        return plain
    return complex(plain) if value.dtype.kind == "c" else float(plain)  # a long double's item() is itself


def _integer(value: int) -> Any:
    plain = int.__index__(value)
    return plain if -(1 << 63) <= plain < 1 << 64 else big_int(plain)


def _array(value: array.array[Any]) -> Any:
    if value.typecode in "uw":
        return value.tounicode()
    letter = {"f": "f", "d": "f"}.get(value.typecode, "u" if value.typecode.isupper() else "i")
    return Array(f"<{letter}{value.itemsize}", (len(value),), value.tobytes()).ext()


def _range(value: range) -> Any:
    return Opaque("builtins.range", {"start": value.start, "stop": value.stop, "step": value.step}).ext()


def _exception(value: BaseException) -> Any:
    plain = [_short(str(each)) for each in value.args if type(each) in (str, int, float, bool)]
    return Opaque(type_name(type(value)), {"args": plain}).ext()


def _named(value: Any) -> Any:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", "")
    name = f"{getattr(value, '__module__', None) or ''}.{name}".removeprefix(".")
    return Opaque(type_name(type(value)), {"name": _short(name)}).ext()


_BY_BASE: dict[type, Converter] = {
    str: str.__str__,
    bool: bool,
    int: _integer,
    float: float.__float__,
    complex: complex_number,
    bytes: lambda value: bytes(memoryview(value)),
    memoryview: lambda value: value.tobytes(),
    datetime.date: lambda value: value.isoformat(),
    pathlib.PurePath: str,
    range: _range,
    array.array: _array,
    collections.UserList: lambda value: value.data,
    collections.UserString: lambda value: value.data,
    BaseException: _exception,
    type: _named,
    types.BuiltinFunctionType: _named,
    types.FunctionType: _named,
    types.MethodType: _named,
    types.ModuleType: _named,
}
