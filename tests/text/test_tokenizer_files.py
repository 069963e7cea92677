"""Tokenizers in a store: written once, and waited for while somebody is about to."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from rolltrace.text import claim_tokenizer, tokenizer_file, tokenizers_pending, write_tokenizer


def age(store: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(tokenizer_file(store, "f").with_suffix(".pending"), (then, then))


def test_one_process_writes_and_the_others_leave_it_alone(tmp_path: Path) -> None:
    assert claim_tokenizer(tmp_path, "f")
    assert not claim_tokenizer(tmp_path, "f")
    assert tokenizers_pending(tmp_path)
    write_tokenizer(tmp_path, "f", [b"{", b"}"])
    assert tokenizer_file(tmp_path, "f").read_bytes() == b"{}"
    assert not tokenizers_pending(tmp_path)
    assert not claim_tokenizer(tmp_path, "f")


def test_the_marker_of_a_process_that_died_means_nothing_after_a_while(tmp_path: Path) -> None:
    claim_tokenizer(tmp_path, "f")
    age(tmp_path, 60)
    assert not tokenizers_pending(tmp_path)
    assert list((tmp_path / "tokenizers").iterdir()) == []


def test_another_takes_over_before_that(tmp_path: Path) -> None:
    claim_tokenizer(tmp_path, "f")
    age(tmp_path, 25)
    assert tokenizers_pending(tmp_path)
    assert claim_tokenizer(tmp_path, "f")
    assert not claim_tokenizer(tmp_path, "f")


def test_a_failure_leaves_neither_marker_nor_half_a_file(tmp_path: Path) -> None:
    claim_tokenizer(tmp_path, "f")
    with pytest.raises(ZeroDivisionError):
        write_tokenizer(tmp_path, "f", (b"%d" % (1 // each) for each in (1, 0)))
    assert list((tmp_path / "tokenizers").iterdir()) == []


def test_a_store_without_tokenizers_waits_for_none(tmp_path: Path) -> None:
    assert not tokenizers_pending(tmp_path)
