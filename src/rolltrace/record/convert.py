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
import functools
import itertools
import logging
import pathlib
import re
import sys
import time
import types
from collections.abc import Callable, Collection, Iterable, Mapping, Set, ValuesView
from typing import Any

import xxhash
from msgspec import Raw, Struct
from msgspec.msgpack import Ext

from rolltrace._guard import pass_on_signals
from rolltrace.record.bounded import BoundedEncoder
from rolltrace.record.fields import DEEPEST, MAX_OBJECTS, Slot, public_fields, slots_of
from rolltrace.record.schema import clean_text
from rolltrace.record.values import (
    ARRAY_KINDS,
    Array,
    ArraySummary,
    Cut,
    Image,
    Opaque,
    big_int,
    complex_number,
)

Converter = Callable[[Any], Any]
BlobKeeper = Callable[[str, dict[str, Any], bytes], None]
_MAX_FIELDS = 16
_MAX_TYPES = 4096
_LEAVES = frozenset({str, int, float, bool, bytes, type(None), Ext, Raw})
_SECRET = re.compile(r"key|token|secret|passw|auth|credential|cookie", re.IGNORECASE)
_CREDENTIAL = re.compile(
    r"(api|access|private|secret|admin|signing)_?key|secret|passw|credential|cookie|^auth(orization)?$"
    r"|(access|api|auth|bearer|hf|refresh|session)_?token|^(token|key|bearer)$",
    re.IGNORECASE,
)
_MAX_FIELD_LENGTH = 200
_SAMPLED_VALUES = 65_536
_MAX_COPIED = 400_000
"""Items in all containers of a value that is converted in one go."""
_MAX_CONVERTED = 50_000
"""Objects converted for one value in one go; a walk has a limit of its own."""
_MAX_ITERATED = 100_000
_MAX_ITERATION_SEC = 0.25
_MAX_KEPT_BYTES = 1 << 20
TOO_MANY_OBJECTS = "one of too many objects"
OBJECTS_TOO_DEEP = "inside too many other objects"
"""Why an object is not kept with all its fields."""
_MAX_START_LENGTH = 64 << 10
_LONG = frozenset({str, bytes, memoryview, array.array})
"""What is asked of a mapping or set whose iteration is the user's own code, and may never end."""


def opaque(value: object, reason: str = "") -> Ext:
    """A short typed marker: the type and those public fields that are plain and short."""
    fields: dict[str, Any] = {}
    try:
        inside = object.__getattribute__(value, "__dict__")
        for name, field in itertools.islice(inside.items(), _MAX_FIELDS):
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
    return clean_text(text[:_MAX_FIELD_LENGTH])


def private(value: Any) -> Any:
    """The value with containers of our own, which no other thread can change; objects to convert stay as they are.

    Raises:
        TooMuch: it has so many containers that a walk must find out what to keep.
    """
    return _Copy().of(value)


class TooMuch(Exception):
    """More than can be converted in a short time."""


class TooManyObjects(Exception):
    """More objects of unknown types than a result has."""


class _Copy:
    """One copy, and how many items it may yet have."""

    def __init__(self, convert: Converter | None = None) -> None:
        self._left = _MAX_COPIED
        self._convert = convert
        """What to make of an object; it stays what it is if there is none."""

    def of(self, value: Any) -> Any:
        kind = type(value)
        if kind in _LEAVES:
            return value
        if issubclass(kind, dict):
            self._count(dict.__len__(value))
            return {key: self.of(item) for key, item in dict.copy(value).items()}
        if issubclass(kind, list):
            self._count(list.__len__(value))
            copy = list.copy(value)
            return copy if _LEAVES.issuperset(map(type, copy)) else [self.of(item) for item in copy]
        if issubclass(kind, tuple):
            self._count(tuple.__len__(value))
            return [self.of(item) for item in tuple.__iter__(value)]
        if issubclass(kind, set | frozenset):
            self._count(len(value))
            return [self.of(item) for item in kind.copy(value)]
        if dataclasses.is_dataclass(kind):
            return self._fields(value, [each.name for each in dataclasses.fields(kind)])
        if hasattr(kind, "__attrs_attrs__"):
            return self._fields(value, [each.name for each in kind.__attrs_attrs__ if not each.name.startswith("_")])
        if issubclass(kind, Struct):
            return self._fields(value, kind.__struct_fields__)
        return value if self._convert is None else self._convert(value)

    def _fields(self, value: Any, names: Collection[str]) -> dict[str, Any]:
        self._count(len(names))
        return {name: self.of(getattr(value, name)) for name in names if hasattr(value, name)}

    def _count(self, items: int) -> None:
        self._left -= items + 1
        if self._left < 0:
            raise TooMuch


class Converters:
    """The converter of every type seen so far, for one recorder and its limits."""

    def __init__(self, max_array_bytes: int, max_bytes: int, keep_blob: BlobKeeper) -> None:
        self._max_array_bytes = max_array_bytes
        self._max_bytes = max_bytes
        self._keep_blob = keep_blob
        self._converters: dict[type, Converter] = {}
        self.cuts = 0
        """How many arrays and mappings were over a limit so far."""
        self._left = 0
        self._objects_left = 0
        self._slots: dict[type, tuple[Slot, ...]] = {}
        """Of the types that nobody told us about."""
        self._encode = BoundedEncoder(_MAX_KEPT_BYTES, self)
        self._encode_plain = BoundedEncoder(_MAX_KEPT_BYTES)

    def begin(self, most: int = _MAX_CONVERTED) -> None:
        """A value is about to be converted, with so many objects at most. (Threads share what each may convert.)"""
        self._left = most
        self._objects_left = MAX_OBJECTS

    def __call__(self, value: Any) -> Any:
        """msgspec's `enc_hook`. One strange value costs its marker, not the record.

        Raises:
            TooMuch: so many objects were converted that a walk must find out what to keep.
        """
        kind = type(value)
        self._left -= 1
        if self._left < 0:
            raise TooMuch
        try:
            converter = self._converters.get(kind)
            if converter is None:
                converter = self._learn(kind)
            converted = converter(value)
            return private(converted) if type(converted) in (dict, list) and kind not in self._slots else converted
        except (RecursionError, TooMuch):
            raise  # a cycle, most likely: the walk finds it
        except Exception as error:
            pass_on_signals()
            return opaque(value, f"{type(error).__name__} while it was recorded")

    def _choose(self, kind: type) -> Converter:
        for base, converter in _BY_BASE.items():
            if issubclass(kind, base):
                return functools.partial(self._long, convert=converter) if base in _LONG else converter
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
            return self._masked
        if ("numpy", "ndarray") in lineage:
            return self._numpy
        if ("torch", "Tensor") in lineage:
            return self._tensor
        if ("PIL", "Image") in lineage:
            return self._image
        if issubclass(kind, Mapping):
            return self._mapping
        if issubclass(kind, collections.deque):
            return lambda value: list(collections.deque.__iter__(value))
        if issubclass(kind, Set | ValuesView) or ("omegaconf", "ListConfig") in lineage:
            return self._items
        if hasattr(kind, "shape") and hasattr(kind, "dtype"):  # jax, cupy, tensorflow: perhaps on a device
            return lambda value: _summary(value, None)
        self._slots[kind] = slots_of(kind)
        return self._object

    def fields_of(self, value: Any) -> dict[str, Any] | None:
        """The public fields of an object of an unknown type; None for all other values, and for one without any.

        Raises:
            TooManyObjects: so many were asked for that this is no result, but the graph of a program.
        """
        kind = type(value)
        if kind not in self._slots and self._converters.get(kind) is None:
            self._learn(kind)
        slots = self._slots.get(kind)
        fields = None if slots is None else public_fields(value, slots)
        if not fields:
            return None
        for name, field in fields.items():
            if type(field) is str and _CREDENTIAL.search(name):  # a client is an argument of many functions
                fields[name] = Opaque("builtins.str", {}, "left out: a credential, by its name").ext()
        self._objects_left -= 1
        if self._objects_left < 0:
            self.cuts += 1
            raise TooManyObjects
        return fields

    def _object(self, value: Any) -> Any:
        return self._object_inside(value, ())

    def _object_inside(self, value: Any, around: tuple[int, ...]) -> Any:
        """An object of an unknown type as a dict of its public fields."""
        if id(value) in around:
            return Opaque(type_name(type(value)), {}, "refers to itself").ext()
        if len(around) == DEEPEST:
            return opaque(value, OBJECTS_TOO_DEEP)
        try:
            fields = self.fields_of(value)
        except TooManyObjects:
            return opaque(value, TOO_MANY_OBJECTS)
        if fields is None:
            return opaque(value)
        copy = _Copy(functools.partial(self._nested, around=(*around, id(value))))
        return {name: self._field(field, copy) for name, field in fields.items()}

    def _field(self, field: Any, copy: _Copy) -> Any:
        """A field as it is now: in one call of msgspec, which no other thread can disturb, if that knows all of it."""
        if type(field) in _LEAVES:
            return field
        try:
            if type(field) in (list, dict, tuple) or hasattr(type(field), "__dataclass_fields__"):
                return Raw(self._encode_plain(field))
        except TypeError:  # an object inside needs converting
            pass
        except BufferError:  # a walk finds out what to keep
            raise TooMuch from None
        return copy.of(field)

    def _nested(self, value: Any, around: tuple[int, ...]) -> Any:
        kind = type(value)
        if kind not in self._slots and self._converters.get(kind) is None and not dataclasses.is_dataclass(kind):
            self._learn(kind)
        return self._object_inside(value, around) if kind in self._slots else value

    def _learn(self, kind: type) -> Converter:
        if len(self._converters) >= _MAX_TYPES:  # a program that makes types as it goes must be able to forget them
            self._converters.clear()
            self._slots.clear()
        converter = self._converters[kind] = self._choose(kind)
        return converter

    def _too_large(self, dimensions: int, size_bytes: int) -> bool:
        """One dimension may be token ids or logprobs: kept exactly for as long as a record can hold them."""
        over = size_bytes > (self._max_array_bytes if dimensions > 1 else self._max_bytes)
        self.cuts += over
        return over

    def _mapping(self, value: Any) -> Any:
        pairs, is_all = _first(value.items())
        return dict(pairs) if is_all else self._cut(value, dict(pairs))

    def _items(self, value: Any) -> Any:
        items, is_all = _first(value)
        return items if is_all else self._cut(value, items)

    def _cut(self, value: Any, kept: Any) -> Ext:
        """What was had of something that goes on and on."""
        self.cuts += 1
        try:
            length = min(len(value), 1 << 62)
        except Exception:  # it is the user's own code
            pass_on_signals()
            length = 0
        try:
            raw = Raw(self._encode(private(kept)))
        except Exception:  # too large, or of many kinds
            pass_on_signals()
            raw = Raw(b"\xc0")
        return Cut("items", max(length, len(kept)), raw).ext()

    def _long(self, value: Any, convert: Converter) -> Any:
        """Text or bytes: copied only if all of it can be kept, else as much as tells what it is."""
        size = value.nbytes if isinstance(value, memoryview) else len(value) * getattr(value, "itemsize", 1)
        if size <= self._max_bytes:
            return convert(value)
        self.cuts += 1
        kind = next((base for base in (str, bytes) if isinstance(value, base)), None)
        kept = None if kind is None else kind.__getitem__(value, slice(0, min(self._max_bytes // 8, _MAX_START_LENGTH)))
        return Cut("bytes", len(value), kept).ext()

    def _masked(self, value: Any) -> Any:
        return _summary(value, None) if self._too_large(1, value.nbytes) else value.tolist()

    def _numpy(self, value: Any) -> Any:
        if value.dtype.kind in "biufc" and self._too_large(value.ndim, value.nbytes):
            return _summary(value, _statistics(_sample(value)))
        if self._too_large(1, value.nbytes):  # text, objects: each item becomes one of Python's
            return _summary(value, None)
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
            array = value.resolve_conj().resolve_neg().numpy()
            if self._too_large(array.ndim, array.nbytes):
                return _summary(value, _statistics(_sample(array)))
            return Array(array.dtype.str, array.shape, array.tobytes()).ext()
        bits = value.view(sys.modules["torch"].int16).numpy()
        if self._too_large(bits.ndim, bits.nbytes):
            return _summary(value, _statistics((_sample(bits).astype("u4") << 16).view("f4")))
        return Array("bfloat16", bits.shape, bits.tobytes()).ext()

    def _image(self, value: Any) -> Any:
        width, height = value.size
        if width * height * max(1, len(value.getbands())) > self._max_bytes:  # not even decoded
            self.cuts += 1
            return Opaque(
                type_name(type(value)), {"mode": value.mode, "width": width, "height": height}, "too large"
            ).ext()
        pixels = value.tobytes()
        info = {"mode": value.mode, "size": value.size, "palette": bytes(value.getpalette() or b"")}
        # The hash covers what the pixels mean, or two sizes of one plain colour would be one image.
        content = xxhash.xxh3_128(pixels)
        content.update(repr((info["mode"], info["size"], info["palette"])).encode())
        name = content.hexdigest()
        self._keep_blob(name, info, pixels)
        return Image(name, value.mode, tuple(value.size), value.format).ext()


def _first(values: Iterable[Any]) -> tuple[list[Any], bool]:
    """The first of these, as many as can be had within the limits; and whether these are all."""
    first: list[Any] = []
    deadline = time.monotonic() + _MAX_ITERATION_SEC
    for value in values:
        if len(first) == _MAX_ITERATED or (len(first) % 64 == 63 and time.monotonic() > deadline):
            return first, False
        first.append(value)
    return first, True


def _summary(value: Any, statistics: dict[str, float] | None) -> Any:
    shape = tuple(int(size) for size in value.shape)
    device = str(getattr(value, "device", "cpu"))
    return ArraySummary(type_name(type(value)), str(value.dtype), shape, device, statistics).ext()


def _sample(array: Any) -> Any:
    """Values taken evenly, so that a huge array does not hold up the rollout."""
    return array.flat[:: -(-array.size // _SAMPLED_VALUES) or 1]


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
    args = itertools.islice(value.args, _MAX_FIELDS)
    plain = [_short(str(each)) for each in args if type(each) in (str, int, float, bool)]
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
    logging.Logger: opaque,  # refers to all others
    logging.Handler: opaque,
    type: _named,
    types.BuiltinFunctionType: _named,
    types.FunctionType: _named,
    types.MethodType: _named,
    types.ModuleType: _named,
}
