"""Secrets in text that are known by the name before them: assignments, headers, elements and attributes, options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rolltrace.drain.secret_names import (
    NAME_ENDINGS,
    ONLY_AFTER_A_WORD,
    Strength,
    is_like_credential,
    is_like_password,
    is_placeholder,
    is_secret,
    strength,
)
from rolltrace.drain.secret_shapes import match_longest


class Secret(NamedTuple):
    """Where a secret stands in a text, and what it is."""

    start: int
    end: int
    kind: str

    @property
    def mark(self) -> str:
        """What stands in its place."""
        return f"[redacted: {self.kind}, {self.end - self.start} chars]"


_TO_LOWER = bytes(range(256)).lower()
_TO_ASSIGNMENTS = _TO_LOWER.replace(b":", b"=").replace(b">", b"=")
_LEFT_OUT_OF_ASSIGNMENTS = b" \t\"'\\`]"


def _assigned_to_secret_name() -> re.Pattern[bytes]:
    """A pattern for the sign after the name of a secret: what begins with one character is searched for fastest.

    `name="token" value=` is such a place too.
    """
    by_width: dict[int, list[str]] = {}
    for word in filter(str.isascii, NAME_ENDINGS):
        before = "[a-z_.-]" if word in ONLY_AFTER_A_WORD else ""
        for ending in (word, f"{word}s", f"{word}value", f"{word}content"):
            by_width.setdefault(len(ending) + bool(before), []).append(f"{before}{ending}=")
    last_two = sorted({ending[-3:] for endings in by_width.values() for ending in endings})
    lookbehinds = "|".join(f"(?<={'|'.join(endings)})" for endings in by_width.values())
    return re.compile(f"=(?<={'|'.join(last_two)})(?:{lookbehinds})".encode())  # the last two rule out nearly all


_ASSIGNED_TO_SECRET_NAME = _assigned_to_secret_name()


def named_values(text: str, ascii_text: bytes) -> Iterator[Secret]:
    """Secrets that stand behind their names.

    Args:
        text: The text.
        ascii_text: As many bytes as the text has characters.
    """
    assignments = ascii_text.translate(_TO_ASSIGNMENTS, _LEFT_OUT_OF_ASSIGNMENTS)
    if _ASSIGNED_TO_SECRET_NAME.search(assignments) or b"type=password" in assignments:
        yield from _assigned_values(text, _names_and_signs(ascii_text.translate(_TO_LOWER)))
        if "<" in text and (b"value=" in assignments or b"content=" in assignments):
            yield from _tag_attributes(text)
    if not text.isascii() and ("密" in text or "令" in text):
        yield from _assigned_values(text, _FOREIGN_NAME_AND_SIGN.finditer(text))
    if "-" in text:
        if "--" in text:
            yield from _command_line_flags(text)
        yield from find_command_passwords(text)
    if "password" in text and "login" in text:
        yield from (
            Secret(*match.span(1), "password") for match in _NETRC.finditer(text) if not is_placeholder(match[1])
        )


def _patterns_of_names_and_signs() -> Iterator[tuple[bytes, re.Pattern[bytes]]]:
    """One for each beginning (`pass`, `auth`), with that: most texts have few of them."""
    by_beginning: dict[str, list[str]] = {}
    for word in filter(str.isascii, NAME_ENDINGS):
        by_beginning.setdefault(word[:3], []).append(word)
    for words in by_beginning.values():
        pattern = re.compile(f"{match_longest(words)}s?[0-9_]{{0,3}}{_SIGN}".encode())
        yield min(words, key=len).encode(), pattern


_SIGN = r"([\\\"'`\]>]{0,4}[ \t]{0,3}(?::=|=>|==|[:=])|[\"']?>)"
_NAMES_AND_SIGNS = list(_patterns_of_names_and_signs())
_FOREIGN_NAMES = [word for word in NAME_ENDINGS if not word.isascii()]
_FOREIGN_NAME_AND_SIGN = re.compile(f"(?:{'|'.join(_FOREIGN_NAMES)})([\"'`]?[ \t]{{0,3}}(?:[:=]|是|为|為))")
_NAME_BACKWARDS = re.compile(r"(?:[A-Za-z0-9_.\-]{1,80}|[^\x00-\x7f]{1,8})(?: [A-Za-z]{2,20}(?![A-Za-z]))?")
_OPENING_QUOTE = re.compile(
    r"[ \t]{0,4}(?:[|>][+-]?)?(?:[ \t]{0,4}\r?\n[ \t]{1,40})?(?:[bBrRuUfF]{0,2}(\\{0,7})([\"'`]))?"
)
_SCHEME = re.compile(
    r"(?:bearer|basic|token|apikey|negotiate|digest|oauth|hawk|signature|aws4-hmac-sha256)\s{1,3}", re.IGNORECASE
)
_AUTH_PARAMETERS = re.compile(
    r"(?:[A-Za-z_]{1,40}=(?:\\{0,7}\"[^\"'\r\n]{0,1024}\"|[^\s,\"']{1,1024}),?[ \t]{0,3}){1,20}"
)
_UNQUOTED_VALUE = re.compile(r"[^\s\"'`<>;&\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]{1,4096}")
_HEADER_VALUE = re.compile(r"[^\r\n\"'`]{1,8192}")
_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*")
_USER_FIELD = re.compile(r"(?i)(?:\b|_)(?:user(?:name| ?id)?|uid|login|host|server|machine|dsn)[\"']?\s?[:=]")
_LONGEST_VALUE = 4096


def _names_and_signs(lower: bytes) -> list[re.Match[bytes]]:
    matches = [match for word, pattern in _NAMES_AND_SIGNS if word in lower for match in pattern.finditer(lower)]
    return sorted(matches, key=lambda match: match.start())


def _assigned_values(text: str, names_and_signs: Iterable[re.Match[bytes] | re.Match[str]]) -> Iterator[Secret]:
    """`API_KEY=...`, `"password": "..."`, `Authorization: Bearer ...`, `<password>...<`: a name, a sign, a value."""
    last = 0
    for match in names_and_signs:
        if match.start() < last:
            continue
        first = max(0, match.start() - 48)
        named = _NAME_BACKWARDS.match(text[first : match.start(1)][::-1])
        name = named[0][::-1] if named is not None else ""
        name_strength = strength(name) or strength(name.rpartition(" ")[2])
        if name_strength:
            secret = _secret_value(text, name.rpartition(" ")[2], name_strength, match)
            if secret is not None:
                last = secret.end
                yield secret


def _secret_value(
    text: str, name: str, name_strength: Strength, match: re.Match[bytes] | re.Match[str]
) -> Secret | None:
    sign = text[match.start(1) : match.end()]
    in_tag = sign.endswith(">") and "=" not in sign
    if in_tag and text.rfind("<", max(0, match.start() - 80), match.start()) < 0:
        return None
    opening = _OPENING_QUOTE.match(text, match.end())
    start = opening.end() if opening is not None else match.end()
    quote = opening[2] if opening is not None else None
    is_on_next_line = "\n" in text[match.end() : start]
    is_header = name.lower().endswith(("authorization", "cookie"))
    if quote and opening is not None:
        end = _end_of_quoted(text, start, opening[1] + quote)
        is_plain = True  # said in so many words, not code
    else:
        bare = (_HEADER_VALUE if is_header else _UNQUOTED_VALUE).match(text, start)
        if bare is None or (is_on_next_line and not _is_alone(text, bare.end(), is_header)):
            return None
        end = start + len(bare[0].rstrip(",)]}.:\\ "))
        if in_tag and not text.startswith("</", end):
            return None
        is_plain = is_header or in_tag or (sign == "=" and _ENVIRONMENT.fullmatch(name) is not None)
    if is_header and (scheme := _SCHEME.match(text, start, end)):
        start = scheme.end()
        if parameters := _AUTH_PARAMETERS.match(text, start):
            end = max(end, parameters.end())
    value = text[start:end]
    if name_strength is Strength.PASSWORD and _has_user_beside(text, match.start(), end):
        name_strength, is_plain = Strength.STRONG, True
    if "\n" in value or not is_secret(name_strength, value):
        return None
    if not is_plain and not (
        is_like_password
        if "pass" in name.lower() or "pwd" in name.lower() or not name.isascii()
        else is_like_credential
    )(value):
        return None
    if not is_plain and any(sign in value for sign in "([{"):  # a call or an index: code
        return None
    return Secret(start, end, name[-40:])


def _is_alone(text: str, end: int, is_header: bool) -> bool:
    return not is_header and text[end : end + 1] in ("", "\n", "\r")


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


_TAG = re.compile(r"<[A-Za-z][^<>]{1,1024}")
_ATTRIBUTE = re.compile(r"([A-Za-z:-]{1,20})\s?=\s?\\?([\"'])([^\"'\\]{0,1024})")


def _tag_attributes(text: str) -> Iterator[Secret]:
    """`<input type="password" value=...`, `<meta name="csrf-token" content=...`, `<add key="ApiKey" value=...`."""
    for tag in _TAG.finditer(text):
        attributes = {match[1].lower(): match for match in _ATTRIBUTE.finditer(text, *tag.span())}
        value = attributes.get("value") or attributes.get("content")
        names = [attributes[key][3] for key in ("type", "name", "key", "id") if key in attributes]
        name = max(names, key=strength, default="")
        how_strong = Strength.STRONG if "password" in names else strength(name)
        if value is not None and is_secret(how_strong, value[3]):
            yield Secret(*value.span(3), name[-40:])


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


_NETRC = re.compile(r"login[ \t\n]{1,4}\S{1,128}[ \t\n]{1,4}password[ \t\n]{1,4}(\S{1,256})")
_OPTION = re.compile(  # it begins with one character, so it is searched for fast
    r"-(?<= -)(?:(passin|passout|pass) [\"']?pass:"
    r"|(storepass|keypass|pw|p|P|a|w)( ?)"
    r"|(u|U|-user|-proxy-user)[ =]?[\"']?[^\s:%\"'-]{1,64}[:%])"
    r"[\"']?([^\s\"'-][^\s\"']{0,127})"
)
_COMMANDS = {
    name: re.compile(rf"\b(?:{commands})\b")
    for names, commands in {
        "p": r"sshpass|mysql[a-z]{0,10}|mariadb|mongo[a-z]{0,10}|7za?|login",
        "P": r"sqlcmd|bcp|(?:un)?zip",
        "a": r"redis-cli",
        "w": r"ldap[a-z]{3,10}",
        "pw": r"plink|pscp|psftp",
        "storepass keypass": r"keytool|jarsigner",
        "u -user -proxy-user": r"curl",
        "U": r"smbclient|rpcclient",
        "pass passin passout": r"openssl",
    }.items()
    for name in names.split()
}
"""Options that hold a password in some commands, and those commands."""
SHORT_OPTIONS = frozenset(f"-{name}" for name in _COMMANDS)
_ONLY_JOINED = ("mysql", "mariadb", "7z")
"""Where a space ends the option."""
_LONGEST_COMMAND = 400


def find_command_passwords(text: str) -> Iterator[Secret]:
    """`docker login -p hunter2`, `mysql -phunter2`: passwords in short options of commands that take them there."""
    for option in _OPTION.finditer(text):
        line = text[max(0, option.start() - _LONGEST_COMMAND) : option.start()].rpartition("\n")[2]
        command = _COMMANDS[option[1] or option[2] or option[4]].search(line)
        if command is None or is_placeholder(option[5]) or (option[3] and command[0].startswith(_ONLY_JOINED)):
            continue
        if command[0] != "login" or " -u" in line or " --user" in line or is_like_password(option[5]):
            yield Secret(*option.span(5), "password")
