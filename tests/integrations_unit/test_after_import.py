"""A module is changed right after its import, before anybody has copied its names."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import BuiltinImporter, ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

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


@pytest.fixture
def finders() -> Iterator[list[Any]]:
    before = list(sys.meta_path)
    yield sys.meta_path
    sys.meta_path[:] = before


class Asking:
    """A finder that searches again from the start and returns what it finds, as import hooks do."""

    _is_searching = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if self._is_searching:
            return None
        self._is_searching = True
        try:
            return importlib.util.find_spec(name)
        finally:
            self._is_searching = False


@pytest.mark.parametrize("ours_first", [True, False])
def test_a_finder_that_searches_again_does_not_make_a_change_twice(
    module: Callable[[str, str], str], finders: list[Any], ours_first: bool
) -> None:
    module("inner_six", "value = [0]\n")
    if ours_first:
        after_import("inner_six", lambda made: made.value.append(1))
        finders.insert(1, Asking())
    else:
        finders.insert(0, Asking())
        after_import("inner_six", lambda made: made.value.append(1))
        finders.remove(_watch)
        finders.insert(1, _watch)
    made = importlib.import_module("inner_six")
    assert made.value == [0, 1]
    assert type(made.__loader__) is type(made.__spec__.loader) is SourceFileLoader


@pytest.mark.parametrize("wrapt_first", [True, False])
def test_hooks_of_wrapt_on_the_same_module_run_once_beside_ours(
    module: Callable[[str, str], str], finders: list[Any], wrapt_first: bool
) -> None:
    wrapt = pytest.importorskip("wrapt")
    finder = wrapt.importer.ImportHookFinder
    name = module("inner_seven" if wrapt_first else "inner_eight", "value = []\n")
    wrapt.register_post_import_hook(lambda made: made.value.append("wrapt"), name)
    after_import(name, lambda made: made.value.append("rolltrace"))
    others = [each for each in finders if each is not _watch and not isinstance(each, finder)]
    registered = [finder(), _watch] if wrapt_first else [_watch, finder()]
    finders[:] = [*reversed(registered), *others]  # who registers later stands first
    made = importlib.import_module(name)
    assert sorted(made.value) == ["rolltrace", "wrapt"]
    assert type(made.__loader__) is type(made.__spec__.loader) is SourceFileLoader


def test_a_finder_that_comes_before_ours_is_asked_once(module: Callable[[str, str], str], finders: list[Any]) -> None:
    asked: list[str] = []

    class Listening:
        def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
            asked.append(name)

    module("inner_nine", "value = 1\n")
    after_import("inner_nine", lambda made: setattr(made, "value", 2))
    finders.insert(0, Listening())
    assert importlib.import_module("inner_nine").value == 2
    assert asked == ["inner_nine"]


def test_a_program_that_only_looks_for_a_module_finds_its_loader(module: Callable[[str, str], str]) -> None:
    module("inner_ten", "value = [0]\n")
    after_import("inner_ten", lambda made: made.value.append(1))
    spec = importlib.util.find_spec("inner_ten")
    assert spec is not None
    assert isinstance(spec.loader, SourceFileLoader)
    assert spec.loader.get_source("inner_ten") == "value = [0]\n"
    made = importlib.import_module("inner_ten")
    assert made.value == [0, 1]
    again = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(again)  # a second copy, by the spec of before: the change was made
    assert again.value == [0]


def test_a_loader_that_modules_share_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(each for each in sys.builtin_module_names if each not in sys.modules)
    changed: list[Any] = []
    before = dict(vars(BuiltinImporter))
    after_import(name, changed.append)
    try:
        assert changed == [importlib.import_module(name)]
    finally:
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert dict(vars(BuiltinImporter)) == before


def test_a_change_that_fails_does_not_fail_the_import(
    module: Callable[[str, str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROLLTRACE_STRICT", "0")
    module("inner_eleven", "value = 1\n")
    after_import("inner_eleven", lambda made: made.no_such_name)
    after_import("inner_eleven", lambda made: setattr(made, "value", 2))
    assert importlib.import_module("inner_eleven").value == 2
