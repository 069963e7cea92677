"""A shared HTML file read back by the rules of its format: what is in it, and what its policy lets run."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any


class SharedPage(HTMLParser):
    """The elements of a file, its policy and its data."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: dict[str, int] = {}
        self.attributes: set[str] = set()
        self.policy = ""
        self.plain = ""
        """What is read without scripts."""
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self._scripts: list[str] = []
        self._packed: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert self._open == [], "every element is closed"
        data = json.loads(self._unpacked("rolltrace-data"))
        values: list[Any] = []
        for entry in data.pop("values"):
            values.append(_followed(entry, values))
        self.answers: dict[str, Any] = {question: values[at] for question, at in data.pop("answers").items()}
        self.images: dict[str, str] = data.pop("images")
        self.about: dict[str, Any] = data

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        self.attributes.update(name for name, _ in attrs)
        found = dict(attrs)
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"] or ""
        if tag != "meta":
            self._open.append((tag, found))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tag, attributes = self._open[-1] if self._open else ("", {})
        if tag == "script" and attributes.get("id"):
            self._packed[str(attributes["id"])] = data
        elif tag == "script":
            self._scripts.append(data)
        elif tag not in ("style", "title"):
            self.plain += data

    def may_run(self) -> bool:
        """Whether the policy names both scripts of the file, and nothing else that could run."""
        texts = [*self._scripts, self._unpacked("rolltrace-script").decode()]
        hashes = {f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in texts}
        sources = re.search(r"script-src ([^;]*)", self.policy)
        return sources is not None and set(sources[1].split()) == hashes and len(hashes) == 2

    def _unpacked(self, name: str) -> bytes:
        return gzip.decompress(base64.b64decode(self._packed[name], validate=True))


def _followed(entry: Any, values: list[Any]) -> Any:
    def inside(child: Any) -> Any:
        return values[child[0]] if isinstance(child, list) and child else child

    if isinstance(entry, dict):
        return {name: inside(child) for name, child in entry.items()}
    return [inside(child) for child in entry] if isinstance(entry, list) else entry
