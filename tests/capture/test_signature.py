"""How a call becomes a dict of inputs."""

import inspect
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolltrace.capture.signature import Call

Given = dict[str, Any]


def plain(a: Any, b: Any = 2) -> Given:
    return locals()


def positional_only(a: Any, b: Any = 2, /, c: Any = 3) -> Given:
    return locals()


def keyword_only(a: Any, *, b: Any, c: Any = 3) -> Given:
    return locals()


def starred(a: Any, *rest: Any, b: Any = 2, **more: Any) -> Given:
    return locals()


def same_name(a: Any, /, **more: Any) -> Given:
    return locals()


def nothing() -> Given:
    return locals()


FUNCTIONS = [plain, positional_only, keyword_only, starred, same_name, nothing]


@given(
    fn=st.sampled_from(FUNCTIONS),
    args=st.lists(st.integers(), max_size=4),
    kwargs=st.dictionaries(st.sampled_from("abcd"), st.integers(), max_size=3),
)
def test_a_call_is_bound_as_python_binds_it(fn: Any, args: list[int], kwargs: dict[str, int]) -> None:
    bound = Call(fn).bind(tuple(args), kwargs)
    try:
        expected = fn(*args, **kwargs)
    except TypeError:
        return  # recorded as it was made; that it did not raise is what is tested
    assert bound == {name: value for name, value in expected.items() if value not in ((), {})}


def test_inputs_are_in_the_order_of_the_signature() -> None:
    assert list(Call(starred).bind((1, 5), {"z": 1, "b": 3})) == ["a", "b", "rest", "more"]


def test_a_keyword_like_a_positional_only_parameter_is_an_extra_one() -> None:
    assert Call(same_name).bind((1,), {"a": 2}) == {"a": 1, "more": {"a": 2}}


def test_too_many_arguments_are_kept() -> None:
    assert Call(plain).bind((1, 2, 3), {"z": 4}) == {"a": 1, "b": 2, "args": (3,), "kwargs": {"z": 4}}


def test_a_default_is_read_at_each_call() -> None:
    def fn(seen: list[int] = []) -> None: ...  # noqa: B006 - that it changes is the point

    call = Call(fn)
    inspect.signature(fn).parameters["seen"].default.append(1)
    assert call.bind((), {}) == {"seen": [1]}


@pytest.mark.parametrize("name", ["self", "cls", "mcs"])
def test_a_receiver_is_left_out(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def fn({name}, x): ...", namespace)
    assert Call(namespace["fn"]).bind((object(), 1), {}) == {"x": 1}


def test_a_function_without_a_signature_keeps_what_it_is_given() -> None:
    assert Call(iter([1]).__next__).bind((1,), {"k": 2}) in (
        {"args": (1,), "kwargs": {"k": 2}},
        {"args": (1,), "kwargs": {"k": 2}, "key": 2},
    )


def test_a_name_is_the_qualified_one_of_the_function() -> None:
    assert Call(plain).name == "plain"
    assert Call(str.upper).name == "str.upper"
