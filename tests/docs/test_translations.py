"""Chinese pages follow the English ones: a change of one alone is noticed, and both have the same sections."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, blocks_of, name_of, prose_of
from tools import translations

PAGES = translations.translations()


def test_the_pages_that_matter_most_are_translated() -> None:
    names = {page.relative_to(ROOT / "docs" / "zh").as_posix() for page in PAGES}
    wanted = {"start.md", "concepts.md", "troubleshooting.md", "howto/verl.md", "howto/tinker.md", "howto/view.md"}
    assert wanted <= names


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_translation_is_as_new_as_its_english_page(page: Path) -> None:
    assert not translations.is_behind(page), "translate what changed, then: python tools/translations.py --accept PAGE"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_translation_has_the_sections_blocks_and_rows_of_its_english_page(page: Path) -> None:
    english = translations.english_of(page)
    for mark in (r"^#+ ", r"^\| ", r"^!\["):
        counts = [len(re.findall(mark, prose_of(each), re.MULTILINE)) for each in (page, english)]
        assert counts[0] == counts[1], mark
    assert [block.language for block in blocks_of(page)] == [block.language for block in blocks_of(english)]


def test_a_change_of_the_english_page_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translations, "DOCS", tmp_path)
    (tmp_path / "zh").mkdir()
    english, chinese = tmp_path / "start.md", tmp_path / "zh" / "start.md"
    english.write_text("# Start\n")
    chinese.write_text("# 上手\n", encoding="utf-8")
    assert translations.is_behind(chinese)
    translations.accept(chinese)
    assert not translations.is_behind(chinese)
    english.write_text("# Start here\n")
    assert translations.is_behind(chinese)
    translations.accept(chinese)
    assert chinese.read_text(encoding="utf-8").count("translated from") == 1
