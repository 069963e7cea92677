"""Where secrets stand in a text: by shape here, by name in `secret_names`.

Nearly all text has none, so it is first looked at in ways that cost next to nothing: translated to bytes in which a
long word is sixteen times the same byte, and to bytes in which every `name = "value"` reads `name=value`. Only what is
left is looked at closely, each place once and going forward, so that no text takes more than time in proportion to its
length.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Iterator

from rolltrace.drain.secret_names import Secret, named_values
from rolltrace.drain.secret_shapes import find_vendor_key, is_mixed, looks_random, may_hold_vendor_key

SHORTEST = 8
"""No secret, with the name that gives it away, is shorter."""
_LONG_WORD_CHARS = 16
_LONG_WORD = b"a" * _LONG_WORD_CHARS
_WORD_BYTES = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-")
_TO_WORDS = bytes(97 if byte in _WORD_BYTES else 32 for byte in range(256))
_SIGN_BYTES = frozenset(b"=:>@-%&\\\x1b")
_TO_SIGNS = bytes(33 if byte in _SIGN_BYTES else word for byte, word in enumerate(_TO_WORDS))
_MAX_SHORT_CHARS = 256


def find_secrets(text: str) -> list[Secret]:
    """All secrets of a text, in order; those that overlap are one."""
    if len(text) < SHORTEST or (len(text) < _MAX_SHORT_CHARS and _is_harmless(text)):
        return []
    secrets = _plain_secrets(text)
    if _may_have_escapes(text):
        secrets += _secrets_behind_escapes(text)
    return merged(secrets) if secrets else secrets


def _is_harmless(text: str) -> bool:
    """Whether a short text has no long word and none of the signs of which every other rule needs one."""
    if not text.isascii():
        return False
    signs = text.encode().translate(_TO_SIGNS)
    return not (b"!" in signs or _LONG_WORD in signs or "PRIVATE KEY" in text or "password" in text)


def _plain_secrets(text: str) -> list[Secret]:
    if not text.isascii():
        text = text.replace("：", ":")
    ascii_text = text.encode("ascii", "replace")  # a byte a character, whatever it is
    secrets: list[Secret] = []
    words = ascii_text.translate(_TO_WORDS)
    if _LONG_WORD in words:
        secrets += _secrets_in_long_words(text, words)
    if "@" in text and "://" in text:
        secrets += _url_credentials(text)
    if "PRIVATE KEY" in text:
        secrets += _private_keys(text)
    secrets += named_values(text, ascii_text)
    return secrets


_COLOUR = r"\[[0-9;?]{0,20}[A-Za-z]"
_ESCAPE = re.compile(
    rf"\x1b{_COLOUR}|\\\\{{0,3}}(?:(?:u001[bB]|x1[bB]){_COLOUR}|u00([2-7][0-9a-fA-F]))|%(?:25)?([2-7][0-9a-fA-F])"
    r"|&(quot|apos|amp|lt|gt|#[0-9]{2,3}|#x[0-9a-fA-F]{2});"
)  # each begins with one character, so it is searched for fast


_ESCAPED_SIGN = re.compile("%(?=3)")


def _may_have_escapes(text: str) -> bool:
    return (
        "\x1b" in text
        or ("\\" in text and "\\u00" in text)
        or ("%" in text and _ESCAPED_SIGN.search(text) is not None)
        or ("&" in text and "&quot;" in text)
    )


def _secrets_behind_escapes(text: str) -> Iterator[Secret]:
    """What is found in lines with escapes (of terminals, JSON, URLs, HTML) once these are what they stand for."""
    escape = _ESCAPE.search(text)
    while escape is not None:
        first = text.rfind("\n", 0, escape.start()) + 1
        last = text.find("\n", escape.end())
        last = len(text) if last < 0 else last
        characters: list[str] = []
        starts: list[int] = []
        at = first
        while escape is not None and escape.start() < last:
            characters += text[at : escape.start()]
            starts += range(at, escape.start())
            code = escape[1] or escape[2]
            if code or escape[3]:
                characters.append(chr(int(code, 16)) if code else html.unescape(f"&{escape[3]};")[:1])
                starts.append(escape.start())
            at = escape.end()
            escape = _ESCAPE.search(text, at)
        characters += text[at:last]
        starts += range(at, last)
        for start, end, kind in _plain_secrets("".join(characters)):
            final = starts[end - 1]
            ending = _ESCAPE.match(text, final)
            yield Secret(starts[start], ending.end() if ending is not None else final + 1, kind)


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
_MAY_PRECEDE_SECRET = ".:/%\\~+=|rRcC"
"""What may stand right before a long word that is a secret; before a space, the last letter of Bearer and Basic."""
_ESCAPED = re.compile(r"[nrtbf]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|(?:25)?[0-9A-F]{2}")
"""What belongs to an escape, of JSON or a URL, that ends right before a long word."""
_WEB_TOKEN = re.compile(r"(?:^|(?<![A-Za-z0-9]))e[yw][A-Za-z0-9]")
_ID_BEFORE_TOKEN = re.compile(r"(?<![0-9])(?:[0-9]{8,10}:|[0-9]{15,16}\|)$")
_WEBHOOK = re.compile(
    r"(?:hooks\.(slack|zapier)\.com/(?:services|workflows|triggers|hooks/catch)"
    r"|(discord|office)(?:app)?\.com/(?:api/webhooks|webhookb2))/[A-Za-z0-9+/@_-]{0,60}$"
)
_REST_OF_WEBHOOK = re.compile(r"[A-Za-z0-9+/@_-]{1,240}")
_AWS_SECRET = re.compile(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])")
_AWS_SECRET_WITHIN_CHARS = 200
_HEX_40 = re.compile(r"[0-9a-f]{40}")
_DIGIT_OR_CAPITAL = re.compile("[0-9A-Z]")
_BEFORE_WORD_CHARS = 32
"""A key may begin that far before its first long word: `dp.pt.`, base64 with a `/` in it."""


def _secrets_in_long_words(text: str, words: bytes) -> Iterator[Secret]:
    """Vendors' keys, and what follows `Bearer`: in words of 16 characters or more."""
    last = 0
    at = words.find(_LONG_WORD)
    while at >= 0:
        end = words.find(b" ", at)
        end = len(words) if end < 0 else end
        if _may_hold_secret(text, at, end):
            for secret in _secrets_in_word(text, last, at, end):
                yield secret
                end = max(end, secret.end)
        last = end
        at = words.find(_LONG_WORD, last)


def _may_hold_secret(text: str, start: int, end: int) -> bool:
    """Whether it is worth looking closer: nearly all long words are names in code, and parts of paths."""
    if _DIGIT_OR_CAPITAL.search(text, start, end) is None:
        return False
    before = text[start - 1] if start else ""
    if before == " ":
        before = text[start - 2 : start - 1] if end - start != 40 else "."
    return (
        (before != "" and before in _MAY_PRECEDE_SECRET)
        or text[end : end + 1] == "."
        or may_hold_vendor_key(text, start, end)
    )


def _secrets_in_word(text: str, last: int, start: int, end: int) -> Iterator[Secret]:
    """Secrets in a long word, or that begin before it, but after `last`."""
    begin = at = start
    before = text[start - 1] if start else ""
    if before and before in "\\%" and (escaped := _ESCAPED.match(text, start)):
        begin = at = escaped.end()
    elif before and before in "./:~+=| ":
        if secret := _secret_by_what_precedes(text, start, end):
            yield secret
            return
        at = max(last, start - _BEFORE_WORD_CHARS) if before != " " else start
    if end < len(text) and text[end] == "." and (secret := _dotted_token(text, begin, end)):
        yield secret
        return
    while (key := find_vendor_key(text, at, end, begin)) is not None:
        yield Secret(*key)
        if key.kind == "aws key":
            yield from _beside_aws_key(text, *key[:2])
        at = key.end


def _secret_by_what_precedes(text: str, start: int, end: int) -> Secret | None:
    """A secret that is known by what stands before its long word."""
    preceding = text[max(0, start - 80) : start]
    if preceding[-7:].lower() == "bearer ":
        match = _BEARER.match(text, start)
        if match is not None and (looks_random(match[0], min_runs=5, max_mean_run=4.0)):
            return Secret(start, match.end(), "bearer token")
    elif preceding[-6:].lower() == "basic ":
        return _basic_auth(text, start)
    elif preceding[-1] in ":|" and 27 <= end - start <= 40 and (match := _ID_BEFORE_TOKEN.search(preceding)):
        kind = "telegram token" if preceding[-1] == ":" else "facebook token"
        return Secret(start - len(match[0]), end, kind) if looks_random(text[start:end]) else None
    elif (
        preceding[-1] == "/" and (match := _WEBHOOK.search(preceding)) and (rest := _REST_OF_WEBHOOK.match(text, start))
    ):
        return Secret(start - len(match[0]), rest.end(), f"{match[1] or match[2]} webhook")
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
    """A JSON web token, signed (three words joined by dots) or encrypted (five); or a token of Discord."""
    web_token = _WEB_TOKEN.search(text, start, end)
    if web_token is None and not (24 <= end - start <= 28 and text[start] in "MNO"):
        return None
    ends = [end]
    while len(ends) < 5 and text[ends[-1] : ends[-1] + 1] == ".":
        ends.append(_end_of_token_segment(text, ends[-1] + 1))
    if web_token is not None:
        is_signed = text.startswith(".eyJ" if len(ends) == 2 else (".ey", ".ew"), end)
        if is_signed or (len(ends) == 5 and ends[4] - end > 40):
            return Secret(max(start, web_token.start()), ends[:3][-1] if is_signed else ends[4], "jwt")
    elif len(ends) >= 3 and ends[1] - end == 7 and 27 <= ends[2] - ends[1] - 1 <= 40 and looks_random(text[start:end]):
        return Secret(start, ends[2], "discord token")
    return None


def _end_of_token_segment(text: str, start: int) -> int:
    match = _TOKEN_SEGMENT.match(text, start)
    return match.end() if match is not None else start


def _beside_aws_key(text: str, start: int, end: int) -> Iterator[Secret]:
    """The secret access key that stands near its id."""
    for match in _AWS_SECRET.finditer(
        text, max(0, start - _AWS_SECRET_WITHIN_CHARS), min(len(text), end + _AWS_SECRET_WITHIN_CHARS)
    ):
        if is_mixed(match[0]) and looks_random(match[0]):
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
_MAX_KEY_CHARS = 65_536


def _private_keys(text: str) -> Iterator[Secret]:
    """PEM, OpenSSH and PGP blocks; one that is cut off as far as it goes. A word about them in prose is none."""
    last, next_end = 0, -2
    for begin in _PRIVATE_KEY_BEGIN.finditer(text):
        if begin.start() < last:
            continue
        if next_end != -1 and next_end < begin.end():
            next_end = text.find("-----END ", begin.end())
        ending = _PRIVATE_KEY_END.match(text, next_end) if 0 <= next_end - begin.end() < _MAX_KEY_CHARS else None
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
