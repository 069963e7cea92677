"""A module is changed right after its import, before anybody has copied its names."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rolltrace.integrations.after_import import _watch, after_import


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return name

    return write


def test_whoever_imports_a_name_gets_the_changed_one(module: Callable[[str, str], str]) -> None:
    module("inner_one", "def answer(): return 1\n")
    module("outer_one", "from inner_one import answer\n")
    assert after_import("inner_one", lambda made: setattr(made, "answer", lambda: 2))
    assert importlib.import_module("outer_one").answer() == 2


def test_a_module_that_is_there_is_changed_at_once(module: Callable[[str, str], str]) -> None:
    made = importlib.import_module(module("inner_two", "value = 1\n"))
    assert not after_import("inner_two", lambda found: setattr(found, "value", 2))
    assert made.value == 2


def test_all_changes_of_a_module_are_made_in_order(module: Callable[[str, str], str]) -> None:
    module("inner_three", "value = [0]\n")
    for number in (1, 2):
        after_import("inner_three", lambda made, number=number: made.value.append(number))
    assert importlib.import_module("inner_three").value == [0, 1, 2]


def test_nothing_is_left_in_the_import_path_afterwards(module: Callable[[str, str], str]) -> None:
    after_import(module("inner_four", ""), lambda made: None)
    assert _watch in sys.meta_path
    importlib.import_module("inner_four")
    assert _watch not in sys.meta_path


def test_a_module_that_does_not_exist_stays_missing() -> None:
    after_import("no_such_module_at_all", lambda made: None)
    try:
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("no_such_module_at_all")
    finally:
        _watch.wanted.clear()
        sys.meta_path.remove(_watch)


def test_a_module_that_fails_is_changed_when_it_is_imported_again(
    module: Callable[[str, str], str], tmp_path: Path
) -> None:
    module("inner_five", "raise RuntimeError('not yet')\n")
    after_import("inner_five", lambda made: setattr(made, "value", 2))
    with pytest.raises(RuntimeError, match="not yet"):
        importlib.import_module("inner_five")
    module("inner_five", "value = 1  # now it works\n")
    assert importlib.import_module("inner_five").value == 2
