"""Reads what `torch.save` wrote, without torch, and without running anything that the file names.

Such an archive is a zip file with a pickle, `NAME/data.pkl`, and the bytes of its tensors, `NAME/data/KEY`. The pickle
is read by Python's own unpickler, the one written in Python: each name that it asks for is looked up in a table here,
which has plain containers, tensors, and NumPy's scalars and arrays. Any other name stands for a `Foreign`, which does
nothing, so one odd value costs nothing but itself. Archives of TorchScript hold code, and are refused as they are:
torch before 2.6 ran it even with `weights_only=True` (CVE-2025-32434).
"""

from __future__ import annotations

import io
import math
import pickle
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from rolltrace.exchange.fields import Malformed
from rolltrace.exchange.packed_files import Archive

_MAX_ITEMS = 10_000_000
"""Of one value, when all that it refers to is written out: a few bytes of a pickle can refer to gigabytes."""
_MAX_PICKLE_BYTES = 4 << 30
_MEMBERS = re.compile(r"[^/]+/(?:data\.pkl|data/[^/]+|version|byteorder|\.[^/]+(?:/[^/]+)?)")
"""What `torch.save` writes."""
_CODE = re.compile(r"[^/]+/(?:constants\.pkl|code/.*)")
"""What `torch.jit.save` writes besides."""
_STORAGES = {
    "DoubleStorage": "f8", "FloatStorage": "f4", "HalfStorage": "f2", "BFloat16Storage": "bf2", "LongStorage": "i8",
    "IntStorage": "i4", "ShortStorage": "i2", "CharStorage": "i1", "ByteStorage": "u1", "BoolStorage": "b1",
}  # fmt: skip
_FORMATS = {
    "f8": "d", "f4": "f", "f2": "e", "i8": "q", "i4": "i", "i2": "h", "i1": "b", "u8": "Q", "u4": "I", "u2": "H",
    "u1": "B", "b1": "?",
}  # fmt: skip
"""NumPy's name of a type -> that of `struct`."""
_MAX_TEXT = 9999


class Foreign:
    """An object of a type that is not read: there is nothing in it, and whatever is done with it does nothing."""

    name = "an object"

    def __new__(cls, *args: Any, **kwargs: Any) -> Foreign:
        return object.__new__(cls)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Foreign:
        return self

    extend = append = add = update = __call__

    def __setitem__(self, key: Any, value: Any) -> None:
        pass


@contextmanager
def open_archive(path: Path) -> Iterator[Any]:
    """The value in a file that `torch.save` wrote. Its tensors are read when `plain` is asked for them."""
    with Archive(path) as archive:
        yield _Reader(archive).value


def plain(value: Any) -> Any:
    """A value of an archive as lists, dicts, text and numbers; what cannot be read as text that says so."""
    if _count_items(value, {}) > _MAX_ITEMS:
        raise Malformed(f"more than {_MAX_ITEMS:,} items")
    return _convert(value)


def _count_items(value: Any, known: dict[int, int]) -> int:
    """How many items a value has when all that it refers to is written out; `known` are those of its parts, by id."""
    if isinstance(value, _Tensor | _Array):
        return math.prod(max(size, 1) for size in value.shape)
    if not isinstance(value, dict | list | tuple):
        return 1
    if id(value) not in known:
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        known[id(value)] = len(inside) + sum(
            _count_items(item, known) for item in inside if type(item) not in (int, float, str)
        )
    return known[id(value)]


def _convert(value: Any) -> Any:
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, dict):
        return {str(_convert(name)): _convert(item) for name, item in value.items()}
    if isinstance(value, _Tensor | _Array):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [_convert(item) for item in value]
    return f"<{name_of(value)}: not read>"


def name_of(value: Any) -> str:
    """What a value is called."""
    kind = value if isinstance(value, type) else type(value)
    return str(kind.name) if issubclass(kind, Foreign) else kind.__name__


class _Reader:
    """Reads the one pickle of an archive."""

    def __init__(self, archive: Archive) -> None:
        names = list(archive.members)
        code = next(filter(_CODE.fullmatch, names), None)
        if code is not None:
            raise Malformed(f"an archive of TorchScript, which holds code ({code}): not read")
        odd = next((name for name in names if not _MEMBERS.fullmatch(name)), None)
        pickles = [name for name in names if name.endswith("/data.pkl")]
        if odd is not None or len(pickles) != 1:
            raise Malformed(f"not written by torch.save: {f'it has a member {odd!r}' if odd else 'it has no data.pkl'}")
        if any(member.compress_type for member in archive.members.values()):
            raise Malformed("not written by torch.save: its members are compressed")
        self._archive, self._folder = archive, pickles[0].removesuffix("data.pkl")
        order = self._folder + "byteorder"
        self.byte_order = ">" if order in names and archive.read(order, 16) == b"big" else "<"
        content = archive.read(pickles[0], _MAX_PICKLE_BYTES)
        try:
            self.value = _Unpickler(io.BytesIO(content), self).load()
        except Malformed:
            raise
        except Exception as error:  # a damaged or hostile pickle raises whatever it likes
            raise Malformed(f"its pickle cannot be read: {str(error)[:200] or type(error).__name__}") from None

    def storage(self, key: str) -> bytes:
        name = f"{self._folder}data/{key}"
        if name not in self._archive.members:
            raise Malformed(f"a tensor is missing: no member {name!r}")
        return self._archive.read(name, 8 * _MAX_ITEMS)


def _unpack(raw: bytes, kind: str, byte_order: str) -> Sequence[Any]:
    """The numbers or texts that these bytes are, by NumPy's name of their type."""
    if kind == "bf2":  # the upper half of a number of 32 bits
        halves = _unpack(raw, "u2", byte_order)
        return struct.unpack(f"<{len(halves)}f", b"".join((half << 16).to_bytes(4, "little") for half in halves))
    if kind.startswith("U"):
        size, codec = 4 * int(kind[1:]), "utf-32-le" if byte_order == "<" else "utf-32-be"
        return [raw[at : at + size].decode(codec).rstrip("\0") for at in range(0, len(raw), size)] if size else [""]
    form = struct.Struct(byte_order + _FORMATS[kind])
    return [number for (number,) in form.iter_unpack(raw[: len(raw) // form.size * form.size])]


def _nest(values: Sequence[Any], offset: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """The values in as many dimensions as they have."""
    if not shape:
        return values[offset]
    starts = range(offset, offset + shape[0] * strides[0], strides[0]) if strides[0] else [offset] * shape[0]
    return [_nest(values, start, shape[1:], strides[1:]) for start in starts]


@dataclass(frozen=True)
class _Storage:
    """Where the numbers of a tensor stand."""

    reader: _Reader
    kind: str
    key: str


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    def tolist(self) -> Any:
        kind, reader = self.storage.kind, self.storage.reader
        raw, size = reader.storage(self.storage.key), int(kind[-1])
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))
        if 0 not in self.shape and (min(self.offset, *self.strides, 0) < 0 or last >= len(raw) // size):
            raise Malformed("a tensor has more numbers than are stored")
        # Many tensors may be parts of one storage.
        numbers = _unpack(raw[self.offset * size : (last + 1) * size], kind, reader.byte_order)
        return _nest(numbers, 0, self.shape, self.strides)


class _ArrayType:
    """A type of NumPy's."""

    def __init__(self, code: Any, *more: Any) -> None:
        self._code, self._byte_order = code, "<"

    def build(self, state: Any) -> None:
        self._byte_order = ">" if isinstance(state, tuple) and state[1:2] == (">",) else "<"

    def read(self, raw: Any) -> Sequence[Any]:
        code = self._code
        is_text = isinstance(code, str) and code[:1] == "U" and code[1:].isdecimal() and int(code[1:]) <= _MAX_TEXT
        if not isinstance(raw, bytes) or not (is_text or code in _FORMATS):
            raise ValueError("another type")
        return _unpack(raw, code, self._byte_order)


class _Array:
    """An array of NumPy's."""

    def __init__(self, *prototype: Any) -> None:
        self.shape: tuple[int, ...] = ()
        self._values: Any = None

    def build(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5 or not isinstance(state[2], _ArrayType):
            return
        _, shape, kind, is_fortran, raw = state
        try:
            values = kind.read(raw)
            if min(shape, default=0) < 0 or math.prod(shape) != len(values):
                return
            in_memory = shape if is_fortran else shape[::-1]
            strides = [math.prod(in_memory[:at]) for at in range(len(shape))]
            self._values = _nest(values, 0, shape, strides if is_fortran else strides[::-1])
            self.shape = shape
        except (ValueError, TypeError):  # of objects, dates or records
            return

    def tolist(self) -> Any:
        return "<numpy.ndarray: not read>" if self._values is None else self._values


def _scalar(kind: Any, raw: Any) -> Any:
    try:
        return kind.read(raw)[0]
    except (ValueError, TypeError, AttributeError, IndexError):
        return Foreign()


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *more: Any) -> Any:
    numbers = (offset, *shape, *strides)
    is_plain = isinstance(storage, _Storage) and all(type(each) is int for each in numbers)
    if not is_plain or min(shape, default=0) < 0 or len(shape) != len(strides):
        return Foreign()
    return _Tensor(storage, offset, tuple(shape), tuple(strides))


def _bytes(text: str, encoding: str) -> bytes:
    return text.encode("latin1")


def _dict(*items: Any) -> dict[Any, Any]:
    return {}


def _list(*items: Any) -> list[Any]:
    return list(items[0]) if items and isinstance(items[0], list | tuple) else []


_NUMPY: dict[str, Callable[..., Any]] = {"scalar": _scalar, "_reconstruct": _Array}
_KNOWN: dict[tuple[str, str], Callable[..., Any]] = {
    ("_codecs", "encode"): _bytes,
    ("collections", "OrderedDict"): _dict,
    ("collections", "defaultdict"): _dict,
    ("collections", "deque"): _list,
    ("numpy", "dtype"): _ArrayType,
    ("torch", "Size"): _list,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    **{(module, name): _list for module in ("builtins", "__builtin__") for name in ("set", "frozenset")},
    **{(f"numpy.{core}.multiarray", name): function for core in ("core", "_core") for name, function in _NUMPY.items()},
}
"""All that a pickle may call."""


_PythonUnpickler: Any = pickle._Unpickler  # type: ignore[attr-defined, unused-ignore]
"""Not the one in C: that one makes room for as many items as a pickle says it will have."""


class _Unpickler(_PythonUnpickler):  # type: ignore[misc]
    stack: list[Any]

    def __init__(self, file: io.BytesIO, reader: _Reader) -> None:
        super().__init__(file)
        self._reader = reader
        self._foreign: dict[tuple[str, str], type[Foreign]] = {}

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and name in _STORAGES:
            return _STORAGES[name]
        known = _KNOWN.get((module, name))
        if known is not None:
            return known
        return self._foreign.setdefault((module, name), type("Foreign", (Foreign,), {"name": f"{module}.{name}"[:200]}))

    def persistent_load(self, pid: Any) -> Any:
        is_storage = isinstance(pid, tuple) and len(pid) == 5 and pid[0] == "storage" and isinstance(pid[1], str)
        return _Storage(self._reader, pid[1], str(pid[2])) if is_storage else Foreign()

    def load_build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], _ArrayType | _Array):
            self.stack[-1].build(state)

    dispatch: ClassVar[dict[int, Any]] = {**_PythonUnpickler.dispatch, pickle.BUILD[0]: load_build}
    del dispatch[pickle.BYTEARRAY8[0]]  # makes room for it in advance too
