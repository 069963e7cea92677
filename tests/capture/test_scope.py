"""The one ContextVar: entered and left in order, and never left wrong."""

import contextvars

from rolltrace import rollout_trace_attr, rollout_trace_op
from rolltrace.capture import scope
from rolltrace.testing import Recording


def test_a_scope_is_left_as_it_was_found(traced: Recording) -> None:
    seen = []
    look = rollout_trace_op(lambda: seen.append(scope.current.get()))
    with rollout_trace_attr() as outer:
        with rollout_trace_attr() as inner:
            look()
            assert scope.current.get() is inner
        assert scope.current.get() is outer
    assert scope.current.get() is None
    assert seen[0]._trajectory is inner


def test_to_leave_in_another_context_changes_nothing(traced: Recording) -> None:
    token = contextvars.copy_context().run(scope.current.set, scope.MUTED)
    with rollout_trace_attr() as trajectory:
        scope.leave(token)
        assert scope.current.get() is trajectory


def test_to_leave_what_was_not_entered_changes_nothing() -> None:
    scope.leave(None)
    assert scope.current.get() is None


def test_entries_that_end_in_the_wrong_order_are_all_recorded(traced: Recording) -> None:
    first, second = rollout_trace_attr(name="first"), rollout_trace_attr(name="second")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert [each.name for each in traced.trajectories] == ["first", "second"]
    scope.current.set(None)
