"""Tokens to text: just what the tokenizer itself gives, and whose each character is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from rolltrace.drain.text import _common_prefix
from rolltrace.errors import MissingExtraError
from rolltrace.record.growing import Decoded, Growing
from rolltrace.text import pages
from rolltrace.text.detokenize import ByteLevel, Detokenizer, load_detokenizer
from tests.nightly import nightly

TEXT = "What is 强化学习? 🎉 <|im_end|> naïve"


def saved(tokenizer: Tokenizer, folder: Path) -> Path:
    path = folder / "tokenizer.json"
    path.write_bytes(b"".join(pages(tokenizer)))
    return path


@pytest.fixture(scope="session")
def table(byte_level: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Detokenizer:
    return load_detokenizer(saved(byte_level, tmp_path_factory.mktemp("saved")))


def whole(detokenizer: Detokenizer, ids: list[int | None]) -> Decoded[Any]:
    column = pa.array(ids, type=pa.int32())
    return Decoded(column, *detokenizer.rest(column, 0))


def pieces(found: Decoded[Any]) -> list[str]:
    ends = [sum(found.piece_chars[: at + 1]) for at in range(len(found.piece_chars))]
    return [found.text[begin:end] for begin, end in zip([0, *ends], ends)]


def test_a_character_spread_over_tokens_belongs_to_the_token_that_completes_it(
    table: Detokenizer, byte_level: Tokenizer
) -> None:
    ids = byte_level.encode("a🚀b").ids
    assert len(ids) > 3
    assert pieces(whole(table, ids)) == ["a", *[""] * (len(ids) - 3), "🚀", "b"]


def test_what_is_not_complete_at_the_end_is_shown_as_the_tokenizer_shows_it(
    table: Detokenizer, byte_level: Tokenizer
) -> None:
    ids = byte_level.encode("a🚀").ids[:-1]
    assert pieces(whole(table, ids))[-1] == "\ufffd"
    assert whole(table, ids).text == byte_level.decode(ids) == "a\ufffd"


def test_bytes_that_can_begin_no_character_are_two_signs(table: Detokenizer, byte_level: Tokenizer) -> None:
    ids = [byte_level.token_to_id(letter) for letter in "í¡"]  # ED A1: half of a surrogate
    found = whole(table, ids)
    assert found.text == byte_level.decode(ids) == "\ufffd\ufffd"
    assert list(found.piece_chars) == [0, 2]


def test_special_tokens_and_such_that_are_no_bytes_are_kept(table: Detokenizer, byte_level: Tokenizer) -> None:
    ids = byte_level.encode("<|im_start|>hi<|中 文|>").ids
    found = whole(table, ids)
    assert pieces(found)[0] == "<|im_start|>"
    assert pieces(found)[-1] == "<|中 文|>"


@pytest.mark.parametrize("ids", [[], [-1], [1 << 30], [None, 5, None], [-(1 << 31), (1 << 31) - 1]])
def test_tokens_that_nobody_knows_have_no_text(table: Detokenizer, byte_level: Tokenizer, ids: list[int]) -> None:
    known = [each for each in ids if each == 5]
    found = whole(table, ids)
    assert found.text == byte_level.decode(known)
    assert len(found.piece_chars) == len(ids)


@settings(max_examples=nightly(4000, 150))
@given(ids=st.lists(st.one_of(st.integers(0, 390), st.integers(94, 256)), max_size=60))
def test_any_tokens_read_as_the_tokenizer_reads_them(table: Detokenizer, byte_level: Tokenizer, ids: list[int]) -> None:
    found = whole(table, ids)
    assert found.text == byte_level.decode(ids, skip_special_tokens=False)
    assert sum(found.piece_chars) == len(found.text)
    assert min(found.piece_chars, default=0) >= 0


BYTES = st.integers(0, 255)


@given(turns=st.lists(st.lists(st.one_of(BYTES, st.integers(0, 390)), max_size=12), max_size=6), data=st.data())
def test_a_sequence_that_grows_or_is_changed_reads_as_if_it_were_decoded_anew(
    table: Detokenizer, byte_level: Tokenizer, turns: list[list[int]], data: st.DataObject
) -> None:
    growing: Growing[pa.Array] = Growing(1000, _common_prefix)
    ids: list[int] = []
    for turn in turns:
        ids = ids[: data.draw(st.integers(0, len(ids)))] if data.draw(st.booleans()) else ids
        ids = [*ids, *turn]
        found = growing.grow("t", pa.array(ids, type=pa.int32()), table.rest)
        assert found.text == byte_level.decode(ids, skip_special_tokens=False)
        assert sum(found.piece_chars) == len(found.text)
        assert len(found.piece_chars) == len(ids)


def test_a_full_tokenizer_json_gives_the_same_as_ours(
    table: Detokenizer, byte_level: Tokenizer, tmp_path: Path
) -> None:
    (tmp_path / "full.json").write_text(byte_level.to_str())
    ids = byte_level.encode(TEXT).ids
    full = load_detokenizer(tmp_path / "full.json")
    assert isinstance(full, ByteLevel)
    assert whole(full, ids).text == whole(table, ids).text == byte_level.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("name", ["metaspace", "unigram", "word_piece"])
def test_any_other_tokenizer_goes_through_the_package(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(name)
    detokenizer = load_detokenizer(saved(tokenizer, tmp_path))
    ids = tokenizer.encode("the quick fox jumps: 你好 🎉, again and again. " * 6).ids
    found = whole(detokenizer, ids)
    assert found.text == tokenizer.decode(ids, skip_special_tokens=False)
    assert sum(found.piece_chars) == len(found.text)
    assert "".join(pieces(found)) == found.text


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"model": 3}', '{"model": {"vocab": {"a": "b"}}}'])
def test_a_damaged_file_is_refused_with_its_name(tmp_path: Path, content: str) -> None:
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"broken\.json"):
        load_detokenizer(path)


@pytest.mark.parametrize("at", [-1, 1 << 40])
def test_ids_that_no_vocabulary_has_are_refused(tmp_path: Path, at: int) -> None:
    path = tmp_path / "broken.json"
    path.write_text(json.dumps({"model": {"vocab": {"a": at}}, "decoder": {"type": "ByteLevel"}}))
    with pytest.raises(ValueError, match="tokens with ids from"):
        load_detokenizer(path)


def test_a_byte_level_tokenizer_needs_no_package_and_another_says_which(
    byte_level: Tokenizer, metaspace: Tokenizer, tmp_path: Path
) -> None:
    (tmp_path / "bytes").mkdir()
    program = (
        "import sys; sys.modules['tokenizers'] = None\n"
        "from pathlib import Path\n"
        "from rolltrace.text import load_detokenizer\n"
        "from rolltrace.errors import MissingExtraError\n"
        "print(type(load_detokenizer(Path(sys.argv[1]))).__name__)\n"
        "try: load_detokenizer(Path(sys.argv[2]))\n"
        "except MissingExtraError as fault: print(fault)\n"
    )
    paths = [str(saved(byte_level, tmp_path / "bytes")), str(saved(metaspace, tmp_path))]
    done = subprocess.run([sys.executable, "-c", program, *paths], capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "ByteLevel"
    assert "pip install 'rolltrace[text]'" in second
    assert issubclass(MissingExtraError, ImportError)
