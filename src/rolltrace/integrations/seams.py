"""Change another package's functions and methods, whoever holds them already.

What is done around a call of theirs is a generator, a hook: it runs up to its `yield` before the call, gets the result
there, and an exception is raised there. So one hook serves plain functions and coroutines, and nothing of it, failing
or not, changes what the caller sees.

    def note_step(call):
        result = yield
        rolltrace.score(..., call.arguments["step"])

A method is looked up on its class at each call, and a function of a module by whoever calls it there. What else holds a
function is a module that did `from x import f` before we came: such copies are replaced too.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Generator
from inspect import BoundArguments
from typing import Any

from rolltrace._guard import caught
from rolltrace.capture import scope

Wrap = Callable[[Any], Any]
"""Makes our function from theirs."""
Steps = Generator[None, Any, None]
Hook = Callable[[BoundArguments], Steps]
"""Gets the arguments of a call, which it may change. One that ends before it yields leaves the call alone."""

_replaced: dict[int, tuple[Any, Any]] = {}
"""By the id of their function: theirs and ours."""


def hook(owner: Any, name: str, work: Hook, *, always: bool = False) -> None:
    """Replace a function of a module, or a method of a class, by one with a hook around it.

    Raises:
        AttributeError: there is none of this name.
    """
    replace(owner, name, lambda theirs: hooked(theirs, work, always=always))


def hook_subclasses(base: Any, method: str, work: Hook) -> None:
    """The same for a method of the class and of all its subclasses, those to come too."""
    replace_in_subclasses(base, method, lambda theirs: hooked(theirs, work))


def hooked(theirs: Any, work: Hook, *, always: bool = False) -> Any:
    """Their function with a hook around it; with `always` also while tracing is off."""
    order = inspect.signature(theirs)
    where = getattr(theirs, "__qualname__", repr(theirs))

    def begin(args: Any, kwargs: Any) -> tuple[Steps, BoundArguments] | None:
        try:
            call = order.bind(*args, **kwargs)
        except TypeError:  # theirs will say so
            return None
        try:
            steps = work(call)
            next(steps)
        except StopIteration:
            return None
        except Exception:
            caught(where)
            return None
        return steps, call

    def end(steps: Steps, result: Any) -> None:
        try:
            steps.send(result)
        except StopIteration:
            pass
        except Exception:
            caught(where)

    def fail(steps: Steps, failure: BaseException) -> None:
        traceback = failure.__traceback__
        try:
            steps.throw(failure)
        except StopIteration:
            pass
        except BaseException as raised:
            if raised is not failure:
                caught(where)
        finally:
            failure.__traceback__ = traceback  # without our frames

    if inspect.iscoroutinefunction(theirs):

        @functools.wraps(theirs)
        async def ours(*args: Any, **kwargs: Any) -> Any:
            begun = begin(args, kwargs) if always or scope.recorder is not None else None
            if begun is None:
                return await theirs(*args, **kwargs)
            steps, call = begun
            try:
                result = await theirs(*call.args, **call.kwargs)
            except BaseException as failure:
                fail(steps, failure)
                raise
            end(steps, result)
            return result
    else:

        @functools.wraps(theirs)
        def ours(*args: Any, **kwargs: Any) -> Any:
            begun = begin(args, kwargs) if always or scope.recorder is not None else None
            if begun is None:
                return theirs(*args, **kwargs)
            steps, call = begun
            try:
                result = theirs(*call.args, **call.kwargs)
            except BaseException as failure:
                fail(steps, failure)
                raise
            end(steps, result)
            return result

    return ours


def replace(owner: Any, name: str, wrap: Wrap) -> None:
    """Put ours in the place of a function of a module, or of a method of a class.

    Raises:
        AttributeError: there is none of this name.
    """
    theirs = inspect.getattr_static(owner, name)
    ours = wrap(theirs)
    setattr(owner, name, ours)
    _replaced[id(theirs)] = (theirs, ours)


def replace_copies() -> None:
    """Replace what modules copied before we came."""
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", None)
        if not isinstance(names, dict) or names.get("__name__") == __name__:
            continue
        for name, value in list(names.items()):
            pair = _replaced.get(id(value))
            if pair is not None and pair[0] is value:
                names[name] = pair[1]


def replace_in_subclasses(base: Any, method: str, wrap: Wrap) -> None:
    """Put ours in the place of a method of the class and of all its subclasses, those to come too."""
    init_subclass = base.__dict__.get("__init_subclass__")

    def __init_subclass__(cls: Any, /, **kwargs: Any) -> None:
        if init_subclass is not None:
            init_subclass.__func__(cls, **kwargs)
        else:
            super(base, cls).__init_subclass__(**kwargs)
        _replace_own(cls, method, wrap)

    base.__init_subclass__ = classmethod(__init_subclass__)
    waiting = [base]
    while waiting:
        cls = waiting.pop()
        _replace_own(cls, method, wrap)
        waiting.extend(cls.__subclasses__())


def _replace_own(cls: Any, method: str, wrap: Wrap) -> None:
    try:
        own = cls.__dict__.get(method)
        if inspect.isroutine(own) and not isinstance(own, staticmethod | classmethod) and not is_ours(own):
            ours: Any = functools.wraps(own)(wrap(own))
            ours.__rolltrace__ = True
            setattr(cls, method, ours)
    except Exception:
        caught(f"change of {method}")


def is_ours(func: Any) -> bool:
    """Whether we, or the user with our own decorator, have done it."""
    of_module = getattr(func, "__globals__", {}).get("__name__")
    return getattr(func, "__rolltrace__", False) or of_module == "rolltrace.capture.op"
