"""Where secrets stand in a text.

Nearly all text has none, so it is first looked at in ways that cost next to nothing: translated to bytes in which a
long word is sixteen times the same byte, and to bytes in which every `name = "value"` reads `name=value`. Only what is
left is looked at closely, each place once and going forward, so that no text takes more than time in proportion to its
length.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from rolltrace.drain.secret_names import (
    Strength,
    is_like_credential,
    is_like_password,
    is_placeholder,
    is_secret,
    looks_random,
    strength,
)
from rolltrace.drain.secret_shapes import VENDOR_PREFIX, vendor_key_at


class Secret(NamedTuple):
    """Where a secret stands in a text, and what it is."""

    start: int
    end: int
    kind: str

    @property
    def mark(self) -> str:
        """What stands in its place."""
        return f"[redacted: {self.kind}, {self.end - self.start} chars]"


SHORTEST = 8
"""No secret, with the name that gives it away, is shorter."""
_LONG_WORD_CHARS = 16
_LONG_WORD = b"a" * _LONG_WORD_CHARS
_WORD_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_TO_WORDS = bytes(97 if byte in _WORD_BYTES else 32 for byte in range(256))
_TO_LOWER = bytes(range(256)).lower()
_TO_ASSIGNMENTS = _TO_LOWER.replace(b":", b"=")
_LEFT_OUT_OF_ASSIGNMENTS = b" \t\"'\\`]>"
_SECRET_NAME_ASSIGNED = re.compile(
    rb"=(?:(?<=[a-z_.-]key=)|(?<=ken=|swd=|pwd=|kie=|sig=)|(?<=cret=|auth=|pass=|code=)|(?<=sword=|hrase=|ntial=)"
    rb"|(?<=zation=|ntials=|ecrets=)|(?<=swords=)|(?<=signature=))"
)


def find_secrets(text: str) -> list[Secret]:
    """All secrets of a text, in order; those that overlap are one."""
    if len(text) < SHORTEST:
        return []
    ascii_text = text.encode("ascii", "replace")  # a byte a character, whatever it is
    secrets: list[Secret] = []
    words = ascii_text.translate(_TO_WORDS)
    if _LONG_WORD in words:
        secrets += _secrets_in_long_words(text, words)
    if "@" in text and "://" in text:
        secrets += _url_credentials(text)
    if "PRIVATE KEY" in text:
        secrets += _private_keys(text)
    if _SECRET_NAME_ASSIGNED.search(ascii_text.translate(_TO_ASSIGNMENTS, _LEFT_OUT_OF_ASSIGNMENTS)):
        secrets += _named_values(text, ascii_text.translate(_TO_LOWER))
    if "--" in text:
        secrets += _command_line_flags(text)
    if "password" in text and "login" in text:
        secrets += (
            Secret(*match.span(1), "password") for match in _NETRC.finditer(text) if not is_placeholder(match[1])
        )
    if "curl -" in text:
        secrets += (
            Secret(*match.span(1), "password") for match in _CURL.finditer(text) if not is_placeholder(match[1])
        )
    return merged(secrets) if secrets else secrets


def merged(secrets: list[Secret]) -> list[Secret]:
    """In order, those that overlap as one: what was found first says what it is."""
    separate: list[Secret] = []
    for each in sorted(secrets, key=lambda secret: secret.start):
        if separate and each.start < separate[-1].end:
            separate[-1] = separate[-1]._replace(end=max(separate[-1].end, each.end))
        else:
            separate.append(each)
    return separate


_BEARER = re.compile(r"[A-Za-z0-9._~+/-]{16,4096}={0,2}")
_BASE64 = re.compile(r"[A-Za-z0-9+/]{16,4096}={0,2}")
_TOKEN_SEGMENT = re.compile(r"[A-Za-z0-9_-]{0,8192}")
_MAY_PRECEDE_SECRET = ".:/%\\rRcC"
"""What may stand right before a long word that is a secret; before a space, the last letter of Bearer and Basic."""
_TELEGRAM_BOT_ID = re.compile(r"[0-9]{8,10}:$")
_SLACK_WEBHOOK = re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/]{0,48}$")
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_AWS_SECRET_WITHIN_CHARS = 200
_HEX_40 = re.compile(r"[0-9a-f]{40}")


def _secrets_in_long_words(text: str, words: bytes) -> Iterator[Secret]:
    """Vendors' keys, and what follows `Bearer`: in words of 16 characters or more."""
    at = words.find(_LONG_WORD)
    while at >= 0:
        end = words.find(b" ", at)
        end = len(words) if end < 0 else end
        last = end
        if _may_hold_secret(text, at, end):
            for secret in _secrets_in_word(text, at, end):
                yield secret
                last = max(last, secret.end)
        at = words.find(_LONG_WORD, last)


def _may_hold_secret(text: str, start: int, end: int) -> bool:
    """Whether it is worth looking closer: nearly all long words are names in code, and parts of paths."""
    before = text[start - 1] if start else ""
    if before == " ":
        before = text[start - 2 : start - 1] if end - start != 40 else "."
    return (
        (before != "" and before in _MAY_PRECEDE_SECRET)
        or text[end : end + 1] == "."
        or VENDOR_PREFIX.search(text, start, end) is not None
    )


def _secrets_in_word(text: str, start: int, end: int) -> Iterator[Secret]:
    begin = start
    before = text[start - 1] if start else ""
    if before == "\\" and text[start] in "nrt":  # an escape in text that is JSON itself
        begin += 1
    elif before == "%":  # an escape in a URL
        begin += 2
    elif before and before in ".:/ " and (secret := _secret_by_what_precedes(text, start, end)):
        yield secret
        return
    if end < len(text) and text[end] == "." and (secret := _dotted_token(text, begin, end)):
        yield secret
        return
    at = begin if begin > start else _next_prefix(text, begin, end)
    while at >= 0:
        key = vendor_key_at(text, at)
        if key is not None:
            yield Secret(at, key.end, key.kind)
            if key.kind == "aws key":
                yield from _beside_aws_key(text, at, key.end)
        at = _next_prefix(text, key.end if key is not None else at + 1, end)


def _next_prefix(text: str, start: int, end: int) -> int:
    match = VENDOR_PREFIX.search(text, start, end)
    return match.start() if match is not None else -1


def _secret_by_what_precedes(text: str, start: int, end: int) -> Secret | None:
    """A secret that is known by what stands before its long word."""
    preceding = text[max(0, start - 80) : start]
    if preceding[-7:].lower() == "bearer ":
        match = _BEARER.match(text, start)
        if match is not None and (looks_random(match[0], fewest_runs=5, longest_run=4.0)):
            return Secret(start, match.end(), "bearer token")
    elif preceding[-6:].lower() == "basic ":
        return _basic_auth(text, start)
    elif preceding.endswith("SG.") and text[end : end + 1] == ".":
        return Secret(start - 3, _end_of_token_segment(text, end + 1), "sendgrid key")
    elif preceding.endswith("ya29."):
        return Secret(start - 5, end, "google token")
    elif preceding.endswith("1//") and text[start] == "0" and end - start >= 40:
        return Secret(start - 3, end, "google token")
    elif preceding.endswith(":") and end - start == 35 and (match := _TELEGRAM_BOT_ID.search(preceding)):
        return Secret(start - len(match[0]), end, "telegram token")
    elif preceding.endswith("/") and (match := _SLACK_WEBHOOK.search(preceding)):
        return Secret(start - len(match[0]), end, "slack webhook")
    elif "wandb" in preceding.lower() and _HEX_40.fullmatch(text, start, end):
        return Secret(start, end, "wandb key")
    return None


def _basic_auth(text: str, start: int) -> Secret | None:
    """A user and a password, as HTTP's basic authentication writes them."""
    match = _BASE64.match(text, start)
    word = match[0] if match is not None else ""
    try:
        pair = base64.b64decode(word + "=" * (-len(word) % 4), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
    return Secret(start, start + len(word), "basic auth") if ":" in pair and pair.isprintable() else None


def _dotted_token(text: str, start: int, end: int) -> Secret | None:
    """A JSON web token, or a token of Discord: three words joined by dots."""
    at = text.find("eyJ", start, end)
    if at >= 0 and text.startswith(".eyJ", end) and (at == start or not text[at - 1].isalnum()):
        second = _end_of_token_segment(text, end + 1)
        if text[second : second + 1] == ".":
            return Secret(at, _end_of_token_segment(text, second + 1), "jwt")
    elif 24 <= end - start <= 28 and text[start] in "MNO":
        second = _end_of_token_segment(text, end + 1)
        third = _end_of_token_segment(text, second + 1) if text[second : second + 1] == "." else second
        if second - end == 7 and 27 <= third - second - 1 <= 40 and looks_random(text[start:end]):
            return Secret(start, third, "discord token")
    return None


def _end_of_token_segment(text: str, start: int) -> int:
    match = _TOKEN_SEGMENT.match(text, start)
    return match.end() if match is not None else start


def _beside_aws_key(text: str, start: int, end: int) -> Iterator[Secret]:
    """The secret access key that stands near its id."""
    for match in _AWS_SECRET.finditer(
        text, max(0, start - _AWS_SECRET_WITHIN_CHARS), min(len(text), end + _AWS_SECRET_WITHIN_CHARS)
    ):
        word = match[0]
        mixed = any(map(str.isupper, word)) and any(map(str.islower, word)) and any(map(str.isdigit, word))
        if mixed and looks_random(word):
            yield Secret(*match.span(), "aws secret access key")


_USER = re.compile(r"[A-Za-z0-9._%+~$-]{0,128}")
_HOST = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?=[/:?#,\s\"'`<>)\]};\\]|$)")
_AUTHORITY = re.compile(r"[^\s\"'`<>\\]{1,512}")
_PORT = re.compile(r"[0-9]{1,5}(?![^/?#])")
_URL_PLACEHOLDER = re.compile(r"[*x]+|<.*>|\{.*\}|\$.*|%[({].*|\[redacted.*|pass(?:word)?|pw|pwd", re.IGNORECASE)


def _url_credentials(text: str) -> Iterator[Secret]:
    """Passwords, and tokens in the place of a user, in URLs. A password may hold `:`, `/`, `@` and `%`."""
    at = text.find("://")
    while at >= 0:
        start = at + 3
        if text.find("@", start, start + 512) >= 0 and (match := _AUTHORITY.match(text, start)):
            yield from _credentials_in_authority(text, start, match[0])
        at = text.find("://", start)


def _credentials_in_authority(text: str, start: int, rest: str) -> Iterator[Secret]:
    user = _USER.match(rest)
    colon = user.end() if user is not None else 0
    slash = rest.find("/")
    at = rest.rfind("@", 0, slash if slash >= 0 else len(rest))
    if rest[colon : colon + 1] == ":":
        if at < 0 and not _PORT.match(rest, colon + 1):  # a slash in the password, which should have been escaped
            at = rest.rfind("@")
        host = _HOST.match(text, start + at + 1)
        if at > colon + 1 and host and not _URL_PLACEHOLDER.fullmatch(rest, colon + 1, at):
            yield Secret(start + colon + 1, start + at, "url password")
    elif at >= 20 and colon == at and (looks_random(rest[:at]) or _HEX_40.fullmatch(rest, 0, at)):
        yield Secret(start, start + at, "url token")


_PRIVATE_KEY_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,60}PRIVATE KEY(?: BLOCK)?-----")
_KEY_BODY = re.compile(r"[A-Za-z0-9+/=\\\r\n]{0,65536}")
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=]")
_LONGEST_PRIVATE_KEY = 65_536


def _private_keys(text: str) -> Iterator[Secret]:
    """PEM, OpenSSH and PGP blocks; one that is cut off as far as it goes. A word about them in prose is none."""
    last, next_end = 0, -2
    for begin in _PRIVATE_KEY_BEGIN.finditer(text):
        if begin.start() < last:
            continue
        if next_end != -1 and next_end < begin.end():
            next_end = text.find("-----END ", begin.end())
        ending = _PRIVATE_KEY_END.match(text, next_end) if 0 <= next_end - begin.end() < _LONGEST_PRIVATE_KEY else None
        if ending is not None:
            body, last = text[begin.end() : ending.start()], ending.end()
            not_base64 = len(_NOT_BASE64.findall(body))
            is_key = len(body) - not_base64 >= 16 and not_base64 < len(body) / 4
        else:
            match = _KEY_BODY.match(text, begin.end())
            last = match.end() if match is not None else begin.end()
            is_key = last - begin.end() >= 16
        if is_key:
            yield Secret(begin.start(), last, "private key")


_NAME_ENDINGS_AND_SIGNS = [
    re.compile(ending + rb"s?[0-9_]{0,3}([\\\"'`\]>]{0,4}[ \t]{0,3}(?::=|=>|==|[:=]))")
    for ending in (
        b"key", b"token", b"secret", b"pass(?:w(?:or)?d|phrase|code)?", b"pwd", b"auth(?:orization)?", b"cookie",
        b"credential", b"sig(?:nature)?",
    )
]  # fmt: skip
"""The last words of names that secrets may have, and the sign behind them. One pattern each: what begins with a word is
searched for as fast as by `str.find`, what begins with one of several is not."""
_NAME_BACKWARDS = re.compile(r"[A-Za-z0-9_.\-]{1,80}(?: [A-Za-z]{2,20}(?![A-Za-z]))?")
_OPENING_QUOTE = re.compile(r"[ \t]{0,4}(?:[bBrRuUfF]{0,2}(\\{0,7})([\"'`]))?")
_SCHEME = re.compile(r"(?:bearer|basic|token|digest|apikey|negotiate|oauth|aws4-hmac-sha256)\s{1,3}", re.IGNORECASE)
_UNQUOTED_VALUE = re.compile(r"[^\s\"'`<>;&]{1,4096}")
_HEADER_VALUE = re.compile(r"[^\r\n\"'`]{1,8192}")
_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*")
_USER_FIELD = re.compile(r"(?i)(?:\b|_)(?:user(?:name| ?id)?|uid|login|host|server|machine|dsn)[\"']?\s?[:=]")
_LONGEST_VALUE = 4096


def _named_values(text: str, lower: bytes) -> Iterator[Secret]:
    """`API_KEY=...`, `"password": "..."`, `Authorization: Bearer ...`, `Password=...;`: a name, a sign, a value."""
    last = 0
    names_and_signs = [match for pattern in _NAME_ENDINGS_AND_SIGNS for match in pattern.finditer(lower)]
    for match in sorted(names_and_signs, key=lambda match: match.start()):
        if match.start() < last:
            continue
        backwards = text[max(0, match.start() - 48) : match.start(1)][::-1]
        named = _NAME_BACKWARDS.match(backwards)
        name = named[0][::-1] if named is not None else ""
        name_strength = strength(name) or strength(name.rpartition(" ")[2])
        if name_strength:
            secret = _secret_value(text, name.rpartition(" ")[2], name_strength, match)
            if secret is not None:
                last = secret.end
                yield secret


def _secret_value(text: str, name: str, name_strength: Strength, match: re.Match[bytes]) -> Secret | None:
    opening = _OPENING_QUOTE.match(text, match.end())
    start = opening.end() if opening is not None else match.end()
    quote = opening[2] if opening is not None else None
    is_header = name.lower().endswith(("authorization", "cookie"))
    if quote and opening is not None:
        end = _end_of_quoted(text, start, opening[1] + quote)
        is_plain = True  # said in so many words, not code
    else:
        bare = (_HEADER_VALUE if is_header else _UNQUOTED_VALUE).match(text, start)
        if bare is None:
            return None
        end = start + len(bare[0].rstrip(",)]}.:\\ "))
        sign = text[match.start(1) : start]
        is_plain = is_header or (sign == "=" and _ENVIRONMENT.fullmatch(name) is not None)
    if is_header and (scheme := _SCHEME.match(text, start, end)):
        start = scheme.end()
    value = text[start:end]
    if name_strength is Strength.PASSWORD and _has_user_beside(text, match.start(), end):
        name_strength, is_plain = Strength.STRONG, True
    if "\n" in value or not is_secret(name_strength, value):
        return None
    if not is_plain and not (
        is_like_password if "pass" in name.lower() or "pwd" in name.lower() else is_like_credential
    )(value):
        return None
    if not is_plain and any(sign in value for sign in "([{"):  # a call or an index: code
        return None
    return Secret(start, end, name[-40:])


def _end_of_quoted(text: str, start: int, quote: str) -> int:
    """Where a quoted value ends: before the same quote, one that is not escaped more; or where the line does."""
    at = text.find(quote, start, start + _LONGEST_VALUE)
    while at > start and len(quote) == 1 and text[at - 1] == "\\" and text[at - 2] != "\\":
        at = text.find(quote, at + 1, start + _LONGEST_VALUE)
    if at >= 0:
        return at
    bare = _UNQUOTED_VALUE.match(text, start)
    return bare.end() if bare is not None else start


def _has_user_beside(text: str, start: int, end: int) -> bool:
    return (
        _USER_FIELD.search(text, max(0, start - 120), start) is not None
        or _USER_FIELD.search(text, end, end + 60) is not None
    )


_FLAG = re.compile(r"--([A-Za-z][A-Za-z0-9_-]{1,40})(=|[ \t]{1,3})([\"']?)([^\s\"'`]{1,1024})")


def _command_line_flags(text: str) -> Iterator[Secret]:
    """`--password hunter2`, `--api-key=...`: arguments of a command."""
    for match in _FLAG.finditer(text):
        name_strength = strength(match[1])
        value = match[4]
        if not name_strength or value.startswith("-") or not is_secret(name_strength, value):
            continue
        if match[2] == "=" or match[3] or is_like_password(value):  # else perhaps prose about a flag
            yield Secret(*match.span(4), f"--{match[1]}")


# Each begins with a word: the one thing that is searched for as fast as in `str.find`.
_NETRC = re.compile(r"login[ \t\n]{1,4}\S{1,128}[ \t\n]{1,4}password[ \t\n]{1,4}(\S{1,256})")
_CURL = re.compile(r"curl [^\n]{0,400}?(?:-u|--user)[ =]?[\"']?[^\s:\"'-]{1,64}:([^\s\"']{1,128})")
