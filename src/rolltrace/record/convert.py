"""What each type of user value becomes when msgspec does not know it.

Looked up by type, decided once per type. No library is imported to recognise its types, and no user
code runs except what a mapping or sequence needs to be iterated: a `__repr__` may raise, sleep, or wait
for a GPU. Converters return something that msgspec can encode, or that another converter takes further.
"""

from __future__ import annotations

import array
import collections
import datetime
import pathlib
import sys
from collections.abc import Callable, Mapping, Set, ValuesView
from types import ModuleType
from typing import Any

import xxhash

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
_MOST_FIELDS = 16
_LONGEST_FIELD = 200
_SAMPLED_VALUES = 65_536


def opaque(value: object, reason: str = "") -> Any:
    """A short typed marker: the type and those fields that are plain and short."""
    fields: dict[str, Any] = {}
    for name, field in list(getattr(value, "__dict__", {}).items())[:_MOST_FIELDS]:
        if type(name) is str and type(field) in (int, float, bool, str, type(None)) and not name.startswith("__"):
            fields[name] = field[:_LONGEST_FIELD] if type(field) is str else field
    try:
        return Opaque(type_name(type(value)), fields, reason).ext()
    except (OverflowError, UnicodeEncodeError):  # a field is a huge int or broken text
        return Opaque(type_name(type(value)).encode("utf-8", "replace").decode(), {}, reason).ext()


def type_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


class Converters:
    """The converter of every type seen so far, for one recorder and its limits."""

    def __init__(self, max_array_bytes: int, keep_blob: Callable[[str, dict[str, Any], bytes], None]) -> None:
        self._max_array_bytes = max_array_bytes
        self._keep_blob = keep_blob
        self._known: dict[type, Converter] = {}

    def __call__(self, value: Any) -> Any:
        """msgspec's `enc_hook`. Never raises: one strange value costs its marker, not the record."""
        kind = type(value)
        try:
            converter = self._known.get(kind)
            if converter is None:
                converter = self._known[kind] = self._choose(kind)
            return converter(value)
        except Exception as fault:
            return opaque(value, f"{type(fault).__name__} while it was recorded")

    def _choose(self, kind: type) -> Converter:
        for base, converter in _BY_BASE.items():
            if issubclass(kind, base):
                return converter
        lineage = [(cls.__module__.partition(".")[0], cls.__name__) for cls in kind.__mro__]
        if any(root == "pydantic" for root, _ in lineage):
            return _pydantic
        if ("numpy", "generic") in lineage:
            return _numpy_scalar
        if ("numpy", "ndarray") in lineage:
            return self._numpy
        if ("torch", "Tensor") in lineage:
            return self._tensor
        if ("PIL", "Image") in lineage:
            return self._image
        if issubclass(kind, Mapping):
            return dict
        if issubclass(kind, Set | collections.deque | range | ValuesView):
            return list
        if hasattr(kind, "shape") and hasattr(kind, "dtype"):  # jax, cupy, tensorflow: perhaps on a device
            return lambda value: _summary(value, None)
        return opaque

    def _numpy(self, value: Any) -> Any:
        if value.dtype.str[1:] not in ARRAY_KINDS:  # text, objects, dates, records
            return value.tolist()
        if value.ndim > 1 and value.nbytes > self._max_array_bytes:
            return _summary(value, _statistics(value))
        return Array(value.dtype.str, value.shape, value.tobytes()).ext()

    def _tensor(self, value: Any) -> Any:
        # Only metadata is read before the device is known: touching values would wait for the GPU.
        if value.device.type != "cpu" or str(value.layout) != "torch.strided":
            return _summary(value, None)
        value = value.detach()
        if str(value.dtype) == "torch.bfloat16":
            if value.dim() > 1 and value.numel() * 2 > self._max_array_bytes:
                return _summary(value, _statistics(value.flatten()[: _SAMPLED_VALUES].float().numpy()))
            bits = value.contiguous().flatten().view(sys.modules["torch"].int16).numpy()
            return Array("bfloat16", tuple(value.shape), bits.tobytes()).ext()
        value = value.resolve_conj().resolve_neg()
        found = value.numpy()
        if found.ndim == 0:
            return found.item()
        if found.ndim > 1 and found.nbytes > self._max_array_bytes:
            return _summary(value, _statistics(found))
        return self._numpy(found)

    def _image(self, value: Any) -> Any:
        pixels = value.tobytes()
        info = {"mode": value.mode, "size": value.size, "palette": bytes(value.getpalette() or b"")}
        # The hash covers what the pixels mean, or two sizes of one plain colour would be one image.
        name = xxhash.xxh3_128_hexdigest(pixels + repr((info["mode"], info["size"], info["palette"])).encode())
        self._keep_blob(name, info, pixels)
        return Image(name, value.mode, tuple(value.size), value.format).ext()


def _summary(value: Any, statistics: dict[str, float] | None) -> Any:
    shape = tuple(int(size) for size in value.shape)
    device = str(getattr(value, "device", "cpu"))
    return ArraySummary(type_name(type(value)), str(value.dtype), shape, device, statistics).ext()


def _statistics(found: Any) -> dict[str, float] | None:
    """Over an even sample of the values, so that a huge array does not hold up the rollout."""
    if found.dtype.kind not in "iufb" or not found.size:
        return None
    flat = found.reshape(-1)[:: max(1, found.size // _SAMPLED_VALUES)] if found.flags.c_contiguous else found.flat[:_SAMPLED_VALUES]
    flat = flat.astype("f8")
    return {
        "min": float(flat.min()),
        "max": float(flat.max()),
        "mean": float(flat.mean()),
        "std": float(flat.std()),
        "sampled": int(flat.size),
    }


def _pydantic(value: Any) -> Any:
    fields = vars(value)
    extra = getattr(value, "__pydantic_extra__", None)
    return {**fields, **extra} if extra else fields


def _numpy_scalar(value: Any) -> Any:
    plain = value.item()
    return float(plain) if type(plain) is type(value) else plain  # longdouble's item() is itself


def _integer(value: int) -> Any:
    plain = int.__index__(value)
    return plain if -(1 << 63) <= plain < 1 << 64 else big_int(plain)


def _array(value: array.array[Any]) -> Any:
    if value.typecode in "uw":
        return value.tounicode()
    letter = {"f": "f", "d": "f"}.get(value.typecode, "u" if value.typecode.isupper() else "i")
    return Array(f"<{letter}{value.itemsize}", (len(value),), value.tobytes()).ext()


def _exception(value: BaseException) -> Any:
    plain = [each for each in value.args if type(each) in (str, int, float, bool)]
    return Opaque(type_name(type(value)), {"args": [str(each)[:_LONGEST_FIELD] for each in plain]}).ext()


def _named(value: Any) -> Any:
    name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"
    return Opaque(type_name(type(value)), {"name": name[:_LONGEST_FIELD]}).ext()


_BY_BASE: dict[type, Converter] = {
    str: str.__str__,
    bool: bool,
    int: _integer,
    float: float.__float__,
    complex: complex_number,
    bytes: lambda value: bytes(memoryview(value)),
    datetime.date: lambda value: value.isoformat(),
    pathlib.PurePath: str,
    array.array: _array,
    BaseException: _exception,
    type: _named,
    type(len): _named,
    type(opaque): _named,
    type(Converters.__call__): _named,
    ModuleType: _named,
}
