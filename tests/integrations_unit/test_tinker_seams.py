"""Functions and methods of another package are replaced, whoever holds them already."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from rolltrace.integrations.seams import replace, replace_copies, replace_in_subclasses
from rolltrace.integrations.tinker.coordinates import GroupPosition, Positions, batch_positions


class Builder:
    def __init__(self, example_id: str | None = None) -> None:
        self.example_id = example_id


def test_copies_of_a_function_in_other_modules_are_replaced_too(monkeypatch: pytest.MonkeyPatch) -> None:
    owner, other = ModuleType("owner_of_answer"), ModuleType("copier_of_answer")
    owner.answer = other.renamed = lambda: 1  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "copier_of_answer", other)
    replace(owner, "answer", lambda theirs: lambda: theirs() + 1)
    assert (owner.answer(), other.renamed()) == (2, 1)  # type: ignore[attr-defined]
    replace_copies()
    assert other.renamed() == 2  # type: ignore[attr-defined]


def test_a_method_is_replaced_in_subclasses_that_come_later() -> None:
    class Base:
        def answer(self) -> int:
            return 1

    class Early(Base):
        def answer(self) -> int:
            return 2

    replace_in_subclasses(Base, "answer", lambda theirs: lambda self: theirs(self) * 10)

    class Late(Early):
        def answer(self) -> int:
            return 3

    class Inheriting(Late): ...

    assert [each().answer() for each in (Base, Early, Late, Inheriting)] == [10, 20, 30, 30]


def test_a_builder_at_several_positions_is_dealt_out_in_order_and_then_again() -> None:
    shared, other = Builder(), Builder()
    positions = Positions()
    positions.add([shared, other, shared], batch_positions(3, [shared, other, shared]))
    drawn = [positions.draw(each) for each in (shared, shared, other, shared)]
    assert [each and each.sample_index for each in drawn] == [0, 2, 1, 2]
    assert drawn[1] is drawn[3]
    assert positions.draw(Builder()) is None


def test_samples_go_by_their_own_ids_if_these_tell_them_apart() -> None:
    named, same = [Builder("a"), Builder("b")], [Builder("a"), Builder("a")]
    assert [each.sample_index for each in batch_positions(0, named)] == ["a", "b"]
    assert [each.sample_index for each in batch_positions(0, same)] == [0, 1]
    assert [each.sample_index for each in batch_positions(0, [Builder("a"), Builder()])] == [0, 1]


def test_numbers_of_rollouts_go_on() -> None:
    position = GroupPosition(step=1, sample_index=0)
    assert [position.next() for _ in range(3)] == [0, 1, 2]


def test_the_doctor_says_that_tinker_cookbook_is_not_there() -> None:
    command = [sys.executable, "-m", "rolltrace", "doctor", "--tinker"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "tinker-cookbook is not installed for this Python" in done.stdout
