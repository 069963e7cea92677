"""A small byte-level BPE tokenizer: the file beside this one, in the format of Hugging Face's `tokenizers`.

Its text needs no library to be read back, and neither does the little encoding that the demo does. The file is made by
`tools/gen_demo_tokenizer.py`.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path

PATH = Path(__file__).parent / "tokenizer.json"
# As the file says: digits one by one, words with the space before them.
_WORDS = re.compile(r"\d| ?[A-Za-z]+| ?[^\sA-Za-z\d]+|\s+")


class Tokenizer:
    def __init__(self) -> None:
        page = json.loads(PATH.read_text(encoding="utf-8"))
        self.special: dict[str, int] = {each["content"]: each["id"] for each in page["added_tokens"]}
        self._ids: dict[str, int] = page["model"]["vocab"]
        self._ranks = {tuple(pair): rank for rank, pair in enumerate(page["model"]["merges"])}
        self._known_words: dict[str, list[int]] = {}
        self._split = re.compile("(" + "|".join(map(re.escape, self.special)) + ")")
        self._texts = {number: text for text, number in self.special.items()}
        letters = {letter: byte for byte, letter in _letters().items()}
        for token, number in self._ids.items():
            self._texts.setdefault(number, bytes(letters[each] for each in token).decode(errors="replace"))

    def encode(self, text: str) -> list[int]:
        ids: list[int] = []
        for piece in self._split.split(text):
            if piece in self.special:
                ids.append(self.special[piece])
            else:
                for word in _WORDS.findall(piece):
                    ids += self._word(word)
        return ids

    def decode(self, ids: list[int]) -> str:
        return "".join(self._texts[each] for each in ids)

    def _word(self, word: str) -> list[int]:
        if word in self._known_words:
            return self._known_words[word]
        letters = _letters()
        parts = [letters[byte] for byte in word.encode()]
        while len(parts) > 1:
            rank, at = min((self._ranks.get(pair, len(self._ranks)), at) for at, pair in enumerate(pairwise(parts)))
            if rank == len(self._ranks):
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        return self._known_words.setdefault(word, [self._ids[part] for part in parts])


@cache
def _letters() -> dict[int, str]:
    """The printable letter that stands for each byte in a byte-level vocabulary."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + at) for at, byte in enumerate(others)}}
