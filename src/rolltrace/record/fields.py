"""The public fields of an object of a type that nobody told us about.

Read from its `__dict__` and its slots and never through a property: no code of the object's runs. Objects inside
objects are followed a few levels deep, as results are built; a program's engines and managers, which refer to all of
it, are not.
"""

from __future__ import annotations

import types
from typing import Any, NamedTuple

MAX_OBJECTS = 1_000
"""Of unknown types, in one value: the results of a whole batch, but not the graph of a program."""
DEEPEST = 3
"""How many objects of unknown types may stand inside each other: a result, its completions, their tokens."""


class Slot(NamedTuple):
    """A field without a place in `__dict__`."""

    name: str
    descriptor: types.MemberDescriptorType


def slots_of(kind: type) -> tuple[Slot, ...]:
    """The public slots of a type and its bases."""
    own = [type.__getattribute__(cls, "__dict__") for cls in reversed(type.mro(kind))]
    return tuple(
        Slot(name, member)
        for inside in own
        if "__slots__" in inside  # not so for types written in C, whose members are no fields
        for name, member in inside.items()
        if type(member) is types.MemberDescriptorType and not name.startswith("_")
    )


def public_fields(value: object, slots: tuple[Slot, ...]) -> dict[str, Any]:
    """Name -> what is there now."""
    fields: dict[str, Any] = {}
    for name, descriptor in slots:
        try:
            fields[name] = descriptor.__get__(value)
        except AttributeError:  # not set
            pass
    try:
        inside = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return fields
    if type(inside) is dict:
        fields |= {
            name: field for name, field in dict.copy(inside).items() if type(name) is str and not name.startswith("_")
        }
    return fields
