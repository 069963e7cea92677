"""No credentials in what our own processes write about themselves: logs, states, reasons.

Errors quote what they failed with: URLs with passwords in them, headers, keys. So all of it passes through the rules
that traced data pass through, and what stands in the environment of this process under the name of a secret is taken
out by itself. In the processes of the drainer and the senders that goes for all that Python code writes to stdout and
stderr. What a library writes by system calls of its own is not seen here; the logs are files of mode 0600.
"""

from __future__ import annotations

import io
import logging
import os
import re
import sys
import urllib.parse
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from rolltrace._guard import logger
from rolltrace.drain import Redactor, Strength, is_placeholder, strength
from rolltrace.errors import ConfigError

_SHORTEST = 6
_URL_PASSWORD = re.compile(r"(://[^\s/:@\"']{0,128}:)([^\s/@\"']{1,512})(?=@)")
_FORMATTER = logging.Formatter()


class Cleaner:
    """Takes credentials out of text that is not traced data but about it."""

    def __init__(self, store: Path, environment: Mapping[str, str] = os.environ) -> None:
        try:
            self._redactor = Redactor.of(store)
        except (ConfigError, OSError):  # whoever drains says so
            self._redactor = Redactor()
        secrets = dict(_secrets_of(environment))
        self._secrets = sorted(secrets.items(), key=lambda pair: -len(pair[0]))

    def text(self, text: str) -> str:
        """The text without credentials."""
        for secret, name in self._secrets:
            if secret in text:
                text = text.replace(secret, f"[redacted: {name}, {len(secret)} chars]")
        text = _URL_PASSWORD.sub(lambda url: f"{url[1]}[redacted: url password, {len(url[2])} chars]", text)
        return self._redactor.text(text)


def _secrets_of(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The credentials in an environment, each with the name of its variable."""
    for name, value in environment.items():
        secrets = [value] if strength(name) is Strength.STRONG else []
        if name.endswith("_HEADERS"):  # OTEL_EXPORTER_OTLP_HEADERS: name=value,name=value
            values = [pair.partition("=")[2].strip() for pair in value.split(",")]
            secrets += [word for each in values for word in urllib.parse.unquote(each).split() + each.split()]
        if "://" in value and "@" in value:
            try:
                secrets.append(urllib.parse.urlsplit(value).password or "")
            except ValueError:
                pass
        yield from ((secret, name) for secret in secrets if len(secret) >= _SHORTEST and not is_placeholder(secret))


class CleanStream(io.TextIOBase):
    """A stream without credentials, line by line."""

    def __init__(self, stream: TextIO, cleaner: Cleaner) -> None:
        self._stream = stream
        self._cleaner = cleaner
        self._line = ""

    def write(self, text: str) -> int:
        lines = (self._line + text).splitlines(keepends=True)
        self._line = lines.pop() if lines and not lines[-1].endswith("\n") else ""
        for line in lines:
            self._stream.write(self._cleaner.text(line))
        return len(text)

    def flush(self) -> None:
        if self._line:
            self._stream.write(self._cleaner.text(self._line))
            self._line = ""
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return False

    def writable(self) -> bool:
        return True


class _CleanRecords(logging.Filter):
    def __init__(self, cleaner: Cleaner) -> None:
        super().__init__()
        self._cleaner = cleaner

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = self._cleaner.text(record.getMessage()), ()
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = self._cleaner.text(_FORMATTER.formatException(record.exc_info))
        return True


def clean_log(store: Path) -> None:
    """From now on what rolltrace logs in this process holds no credentials."""
    for each in list(logger.filters):
        if isinstance(each, _CleanRecords):
            logger.removeFilter(each)
    logger.addFilter(_CleanRecords(Cleaner(store)))


def clean_output(store: Path) -> None:
    """The same for all that Python code of this process, one of our own, writes to stdout and stderr."""
    clean_log(store)
    cleaner = Cleaner(store)
    sys.stdout, sys.stderr = CleanStream(sys.stdout, cleaner), CleanStream(sys.stderr, cleaner)
