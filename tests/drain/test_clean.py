"""Secrets in decoded text are taken out, and the pieces of the tokens still fit."""

from __future__ import annotations

from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rolltrace.drain.redact import Redactor
from rolltrace.drain.secret_names import Secret
from rolltrace.drain.text import CleanText, CleanTexts, without
from tests.drain.secrets_corpus import PLANTED

KEY = "sk-" + "a1" * 20
WORD = f"[redacted: openai key, {len(KEY)} chars]"


def clean(texts: CleanTexts, text: str, pieces: list[str] | None = None, redactor: Redactor | None = None) -> CleanText:
    counts = array("i", map(len, pieces or list(text)))
    return texts.clean(b"t", text, 0, counts, redactor or Redactor())


def pieces_of(found: CleanText) -> list[str]:
    ends = [sum(found.piece_chars[: at + 1]) for at in range(len(found.piece_chars))]
    return [found.text[begin:end] for begin, end in zip([0, *ends], ends)]


def test_a_secret_counts_for_the_token_in_which_it_began() -> None:
    found = clean(CleanTexts(), f"use {KEY} now", ["use ", KEY[:10], KEY[10:20], KEY[20:], " now"])
    assert pieces_of(found) == ["use ", WORD, "", "", " now"]


def test_tokens_that_hold_more_than_the_secret_keep_the_rest() -> None:
    found = clean(CleanTexts(), f"use {KEY} now", [f"use {KEY[:5]}", f"{KEY[5:]} n", "ow"])
    assert pieces_of(found) == [f"use {WORD}", " n", "ow"]


def test_two_secrets_in_one_token_are_both_taken_out() -> None:
    found = clean(CleanTexts(), f"{KEY} {KEY}", [f"{KEY} {KEY}"])
    assert pieces_of(found) == [f"{WORD} {WORD}"]


@pytest.mark.parametrize(("prompt", "expected"), [(2, 2), (10, 4 + len(WORD)), (4 + len(KEY), 4 + len(WORD))])
def test_the_prompt_ends_where_it_ended_or_after_the_secret_in_which_it_did(prompt: int, expected: int) -> None:
    text = f"use {KEY} now"
    counts = array("i", [1] * len(text))
    assert CleanTexts().clean(b"t", text, prompt, counts, Redactor()).prompt_chars == expected


def test_a_secret_that_grows_from_turn_to_turn_is_found() -> None:
    texts = CleanTexts()
    for end in range(1, len(KEY) + 8):
        text = f"see {KEY} now"[:end]
        assert clean(texts, text).text == Redactor().text(text)


@pytest.mark.parametrize("share", [0.4, 0.9])
def test_a_secret_that_begins_in_one_turn_and_ends_in_the_next_is_found(share: float) -> None:
    before = "a turn of words, " * 600
    for planted in PLANTED:
        if isinstance(planted.value, str):
            texts, whole = CleanTexts(), before + planted.value + " and so on"
            begin = whole[: len(before) + int(share * len(planted.value))]
            clean(texts, begin, [begin])
            found = clean(texts, whole, [whole]).text
            assert found == Redactor().text(whole)
            assert planted.secret not in found


def test_a_private_key_that_is_not_over_yet_is_taken_out_as_far_as_it_goes() -> None:
    texts = CleanTexts()
    begin = "a\n-----BEGIN RSA PRIVATE KEY-----\n" + "x" * 20_000
    whole = begin + "more\n-----END RSA PRIVATE KEY-----"
    assert clean(texts, begin).text == f"a\n[redacted: private key, {len(begin) - 2} chars]"
    assert clean(texts, whole + "\nb").text == f"a\n[redacted: private key, {len(whole) - 2} chars]\nb"


def test_a_password_in_a_url_stays_out_when_the_text_goes_on() -> None:
    texts = CleanTexts()
    text = "https://me:secret@host/" + "x" * 100
    assert "secret" not in clean(texts, text).text
    assert "secret" not in clean(texts, text + "y").text


def test_a_rule_of_the_stores_own_may_reach_back_any_length(tmp_path: Path) -> None:
    (tmp_path / "redact.json").write_text('{"shapes": {"block": "(?s)<secret>.*?</secret>"}}')
    redactor, texts = Redactor.of(tmp_path), CleanTexts()
    assert "<secret>" in clean(texts, "a <secret>" + "x" * 20_000, redactor=redactor).text
    block = "<secret>" + "x" * 20_000 + "</secret>"
    assert clean(texts, f"a {block} b", redactor=redactor).text == f"a [redacted: block, {len(block)} chars] b"


def test_a_text_that_grows_is_searched_once() -> None:
    texts = CleanTexts()
    text = ""
    for turn in range(20):
        text += f"turn {turn} through the night https://x " + "word " * 20_000
        clean(texts, text)
    assert texts.searched_chars < 1.2 * len(text)


def test_texts_that_take_turns_are_remembered_and_too_many_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rolltrace.drain.text._MAX_TEXT_CHARS", 1000)
    texts = CleanTexts()
    for turn in range(100):
        for name in (b"a", b"b", b"c"):
            text = name.decode() * 10 * (turn + 1)
            assert texts.clean(name, text, 0, array("i", [1] * len(text)), Redactor()).text == text


SECRETS = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 5)), max_size=4)


@given(counts=st.lists(st.integers(0, 4), min_size=1, max_size=20), places=SECRETS, data=st.data())
def test_whatever_is_taken_out_the_pieces_fit(
    counts: list[int], places: list[tuple[int, int]], data: st.DataObject
) -> None:
    text = "".join(chr(ord("a") + at % 26) for at in range(sum(counts)))
    secrets, last = [], 0
    for gap, size in places:
        start = last + gap
        if start + size <= len(text):
            secrets.append(Secret(start, start + size, "x" * (size % 3)))
            last = start + size
    split = data.draw(st.integers(0, len(counts)))
    found = without(secrets, CleanText(text, sum(counts[:split]), array("i", counts)))
    assert sum(found.piece_chars) == len(found.text)
    assert min(found.piece_chars) >= 0
    assert found.prompt_chars == sum(found.piece_chars[:split])
