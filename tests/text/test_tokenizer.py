"""What is saved of a tokenizer decodes as the tokenizer does."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models

from rolltrace.text import backend_of, fingerprint, pages


@pytest.mark.parametrize("name", ["byte_level", "metaspace", "unigram", "word_piece"])
def test_the_package_reads_it_and_decodes_the_same(name: str, request: pytest.FixtureRequest) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(name)
    again = Tokenizer.from_str(b"".join(pages(tokenizer)).decode())
    ids = list(range(tokenizer.get_vocab_size() + 3))
    assert again.decode(ids, skip_special_tokens=False) == tokenizer.decode(ids, skip_special_tokens=False)


def test_a_fingerprint_is_of_the_content(byte_level: Tokenizer, metaspace: Tokenizer) -> None:
    again = Tokenizer.from_str(byte_level.to_str())
    assert fingerprint(again) == fingerprint(byte_level) != fingerprint(metaspace)
    again.add_tokens(["<|new|>"])
    assert fingerprint(again) != fingerprint(byte_level)
    other = Tokenizer.from_str(byte_level.to_str())
    other.decoder = decoders.Fuse()
    assert fingerprint(other) != fingerprint(byte_level)


def test_ids_with_gaps_are_all_saved() -> None:
    tokenizer = Tokenizer(models.WordLevel({"a": 0, "b": 700, "c": 5000}, unk_token="a"))
    again = Tokenizer.from_str(b"".join(pages(tokenizer)).decode())
    assert [again.id_to_token(each) for each in (0, 700, 5000)] == ["a", "b", "c"]


def test_an_empty_tokenizer_is_one_too() -> None:
    tokenizer = Tokenizer(models.BPE())
    assert len(fingerprint(tokenizer)) == 16
    assert Tokenizer.from_str(b"".join(pages(tokenizer)).decode()).get_vocab_size() == 0


def test_a_decoder_in_python_has_no_such_form(byte_level: Tokenizer) -> None:
    class Shouting:
        def decode(self, tokens: list[str]) -> str:
            return "".join(tokens).upper()

        def decode_chain(self, tokens: list[str]) -> list[str]:
            return [token.upper() for token in tokens]

    tokenizer = Tokenizer.from_str(byte_level.to_str())
    tokenizer.decoder = decoders.Decoder.custom(Shouting())
    with pytest.raises(Exception, match=r"(?i)custom"):
        fingerprint(tokenizer)


@pytest.mark.parametrize("other", [None, "text", 3, object()])
def test_what_is_no_tokenizer_has_no_backend(other: object) -> None:
    assert backend_of(other) is None
