"""A store of an earlier format is refused, and one of this format is opened by every later version."""

from __future__ import annotations

from pathlib import Path

import pytest

import rolltrace
from rolltrace.errors import FormatError

GOLDEN = Path(__file__).parent.parent / "golden"


def test_the_first_store_format_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": 1}')
    with pytest.raises(
        FormatError, match=r"has format 1, and this rolltrace reads format 2; record into another folder"
    ):
        rolltrace.open(tmp_path)
