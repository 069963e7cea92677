"""Every test starts with tracing off, no settings in the environment, and our own faults raised."""

import os
from collections.abc import Iterator

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

import rolltrace
from rolltrace import _guard, _runtime
from rolltrace.testing import Recording, recording


@pytest.fixture(autouse=True)
def _strict_and_off(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in os.environ:
        if name.startswith("ROLLTRACE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ROLLTRACE_STRICT", "1")
    monkeypatch.setenv("ROLLTRACE_DRAIN", "off")  # most tests read what is in the journal
    yield
    rolltrace.shutdown()
    _guard.faults.clear()
    _runtime._warned.clear()


@pytest.fixture
def traced() -> Iterator[Recording]:
    """Tracing is on, into memory."""
    with recording() as made:
        yield made


@pytest.fixture
def lenient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Our own faults are caught and counted, as they are in production."""
    monkeypatch.delenv("ROLLTRACE_STRICT")


CORPUS = [
    "The quick brown fox jumps over the lazy dog, again and again and again.",
    "什么是强化学习?智能体与环境交互,得到奖励。你好,世界!",
    "emoji 🎉🎉 👩‍💻 naïve café — Ünïcödé ﷽",
    "def answer(question): return f'{question!r} -> 42'\n\t# a comment",
] * 4


@pytest.fixture(scope="session")
def byte_level() -> Tokenizer:
    """A byte-level BPE: small, so that Chinese and emoji are spread over several tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    made.train_from_iterator(
        CORPUS, trainers.BpeTrainer(vocab_size=380, initial_alphabet=alphabet, show_progress=False)
    )
    made.add_special_tokens(["<|im_start|>", "<|im_end|>", "<|中 文|>"])
    return made


@pytest.fixture(scope="session")
def metaspace() -> Tokenizer:
    """As Llama 2: spaces are a letter of their own, what is unknown is spelt in bytes."""
    made = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    spelt = ["<unk>", "<s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=360, special_tokens=spelt, show_progress=False)
    made.train_from_iterator(CORPUS[:1], trainer)
    return made


@pytest.fixture(scope="session")
def unigram() -> Tokenizer:
    """A unigram model that spells in bytes what it does not know."""
    spelt = [("<unk>", 0.0), *((f"<0x{byte:02X}>", -10.0) for byte in range(256))]
    words = [(f"▁{word}", -2.0) for text in CORPUS[:1] for word in text.split()]
    letters = [(letter, -5.0) for letter in "▁abcdefghijklmnopqrstuvwxyz,."]
    made = Tokenizer(models.Unigram(list(dict([*spelt, *words, *letters]).items()), unk_id=0, byte_fallback=True))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])
    return made


@pytest.fixture(scope="session")
def word_piece() -> Tokenizer:
    """As BERT: the rest of a word begins with ##, words are joined by spaces."""
    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.WordPiece(cleanup=False)
    trainer = trainers.WordPieceTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False)
    made.train_from_iterator(CORPUS, trainer)
    return made
