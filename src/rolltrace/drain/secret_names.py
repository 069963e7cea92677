"""Secrets that are known by their name: which names they have, what a value must look like, and where both stand in
text: assignments, headers, elements and attributes, options of commands.

A name counts by its last words, however they are joined: `openai_api_key`, `AWS_SECRET_ACCESS_KEY`, `clientSecret`,
`x-api-key`. Three strengths:

STRONG    the value is a secret, whatever it looks like (`api_key`, `Authorization`, `DB_PASSWORD`, `hf_token`),
          unless it is empty, a placeholder (`<your key>`, `${KEY}`, `xxx`, `null`) or plain prose
PASSWORD  `password` alone: six characters or more, and among them a digit or a special character
WEAK      `token`, `secret` or `auth` alone, or after a word that says nothing (`game_secret`): only what looks random

The lists below are the only ones: what is looked for in text (`_NAME_ENDINGS`) is made from them.
Token counts, special tokens and page tokens (`max_tokens`, `eos_token`, `next_page_token`) are no secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from rolltrace.drain.secret_shapes import VENDORS, looks_random, match_longest


class Strength(IntEnum):
    """How much a name says about its value."""

    NONE = 0
    WEAK = 1
    PASSWORD = 2
    STRONG = 3


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+")
_MAX_NAME_CHARS = 80


def _words_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_STRONG_WORDS = _words_of(
    "apikey apikeys apitoken apisecret accesskey secretkey privatekey accesstoken authtoken refreshtoken sessiontoken "
    "clientsecret authkey accountkey authorization passphrase cookie cookies setcookie credential credentials "
    "sharedkey sshpass 密码 口令 密钥 密碼 密鑰"
)
_PASSWORDS = _words_of("password passwords passwd pwd passcode")
_JOINED = tuple(
    word
    for word in _STRONG_WORDS | _PASSWORDS
    if not word.isascii() or (len(word) > 5 and word.endswith(("key", "token", "secret", "word", "wd", "phrase")))
)
"""Also where they are joined to the word before: `PGPASSWORD`, `myapikey`, `数据库密码`."""
_STRONG_BEFORE = {
    "key": _words_of(
        "api access secret private signing encryption account storage subscription master auth shared service app "
        "application admin deploy"
    ),
    "token": _words_of(
        "access auth authentication authorization refresh bearer session id api bot oauth oauth2 personal security "
        "secret private csrf xsrf jwt login deploy webhook device admin root client app service account vault "
        "registration hf hub huggingface github gh gitlab slack npm pypi openai anthropic wandb discord telegram "
        "replicate aws azure gcp google databricks cohere mistral together groq ci jenkins"
    ),
    "secret": _words_of(
        "client app application api shared webhook consumer signing jwt oauth session auth access aws github stripe "
        "cookie encryption hmac"
    ),
    "pass": _words_of("db database mysql postgres pg smtp mail email ftp ssh admin root redis mongo user"),
    "signature": frozenset({"amz", "goog"}),
}
_PUBLIC_BEFORE = frozenset({"public"})
_WEAK_WORDS = frozenset({"token", "secret", "secrets", "auth", "sig", "令牌"})
_VENDORS = (VENDORS - _words_of("age harness linear neon notion ramp readme square together")) | _words_of(
    "algolia asana bing bittrex brave cisco codecov cohere coinbase confluent dashscope datadog deepseek discord "
    "droneci dropbox etsy fastly finicity finnhub flickr freshbooks gitter intercom jfrog kraken kucoin linkedin "
    "looker mailchimp mattermost meraki messagebird mistral nytimes okta privateai qwen rapidapi sendbird serpapi "
    "serper snyk sonar squarespace sumologic telegram tinker travisci twitch twitter zendesk zhipu"
)
"""Before `key`, where other words say nothing. Names that are words of their own are left out."""
_NO_SECRET_BEFORE_TOKEN = _words_of(
    "page next continuation pagination cursor pad eos bos unk mask cls sep stop image video audio special start end "
    "first last prev previous current new max min num per input output prompt completion total target text sync cancel "
    "cancellation word sub vocab tool think"
)
_SINGULAR = {"keys": "key", "tokens": "token", "secrets": "secret"}


@lru_cache(maxsize=8192)
def strength(name: str) -> Strength:
    """How much a name says: `strength("hf_token")` is STRONG, of `token` WEAK, of `keyboard` NONE."""
    words = [word.lower() for word in _WORDS.findall(name[-_MAX_NAME_CHARS:])]
    while len(words) > 1 and words[-1].isdigit():  # api_key_2
        words.pop()
    if not words:
        return Strength.NONE
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _PASSWORDS and not before:
        return Strength.PASSWORD
    if last in _STRONG_WORDS or last in _PASSWORDS or last.endswith(_JOINED):
        return Strength.STRONG
    last_singular = _SINGULAR.get(last, last) if before else last
    if before in _STRONG_BEFORE.get(last_singular, ()):
        return Strength.NONE if _PUBLIC_BEFORE.intersection(words) else Strength.STRONG
    if last == "token" and before in _NO_SECRET_BEFORE_TOKEN:
        return Strength.NONE
    return Strength.WEAK if last in _WEAK_WORDS or (last == "key" and before in _VENDORS) else Strength.NONE


_LAST_WORDS = _STRONG_WORDS | _PASSWORDS | frozenset(_STRONG_BEFORE) | _WEAK_WORDS
_NAME_ENDINGS = sorted(
    word
    for word in _LAST_WORDS - {word + "s" for word in _LAST_WORDS}
    if not any(word.endswith(other) for other in _LAST_WORDS - {word})
)
"""How every name that secrets have ends, but for plurals and numbers."""
_ONLY_AFTER_A_WORD = frozenset(_STRONG_BEFORE) - _WEAK_WORDS
"""Those that say nothing by themselves: `key`, `pass`."""


_PLACEHOLDER = re.compile(
    r"(?i)[\s.*x_#•?-]*"
    r"|<.*>|\{.*\}|\$\{.*\}|\$\(.*\)|\$[A-Z_][A-Z0-9_]*|%[A-Z_(].*"
    r"|\[redacted.*|\[?(?:redacted|filtered|hidden|masked|secret)\]?"
    r"|none|null|nil|undefined|true|false|string|str|text|bytes|any|optional|required|todo|tbd|unset|empty|not[ _-]set"
    r"|password|passwd|token|api[ _-]?key|secret[ _-]?key|value|change[ _-]?me"
    r"|(?:your|my|the|an?|no|some|insert|enter|replace)[ _-].*|.*[ _-](?:here|placeholder)|.*example.*|.*\.\.\."
    r"|bearer|basic|digest|[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+(?:Z|[+-][0-9:]+)?)?"
)
_PROSE = re.compile(r"(?:[A-Za-z'’]{1,20}[,.:;!?]?(?:\s+|$)){3,}")
_SPECIAL_CHARACTER = re.compile(r"[^A-Za-z0-9\s_.'’-]")
_CODE_CHARACTER = re.compile(r"[\s<>|{}()\[\]\"'`\\,;]")
_MAX_JUDGED_CHARS = 256


def is_placeholder(value: str) -> bool:
    """Whether a text stands for a secret without being one."""
    return _PLACEHOLDER.fullmatch(value[:_MAX_JUDGED_CHARS].strip()) is not None


def is_secret(how_strong: Strength, value: str) -> bool:
    """Whether the value of a name of this strength is a secret."""
    if not how_strong or is_placeholder(value):
        return False
    if how_strong is Strength.STRONG:
        return _PROSE.fullmatch(value[:_MAX_JUDGED_CHARS].strip()) is None
    if how_strong is Strength.PASSWORD:
        return is_like_password(value)
    return is_like_credential(value)


def is_like_password(value: str) -> bool:
    """Six characters or more in one word, with a letter, and a digit or a special character that words do not have."""
    if len(value) < 6 or len(value) > _MAX_JUDGED_CHARS or any(map(str.isspace, value)):
        return False
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return has_letter and (has_digit or _SPECIAL_CHARACTER.search(value) is not None)


def is_like_credential(value: str) -> bool:
    """Eight characters or more that look random and hold letters and digits: no words, no code, nothing but ASCII."""
    head = value[:_MAX_JUDGED_CHARS]
    if len(head) < 8 or not head.isascii() or _CODE_CHARACTER.search(head):
        return False
    has_digit = any(map(str.isdigit, head))
    max_mean_run = 2.5 if not has_digit or "/" in head else 5.5 if len(head) >= 20 and head.isalnum() else 4.0
    return (has_digit or len(head) >= 16) and looks_random(head, min_runs=4, max_mean_run=max_mean_run)


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
    for word in filter(str.isascii, _NAME_ENDINGS):
        before = "[a-z_.-]" if word in _ONLY_AFTER_A_WORD else ""
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
    for word in filter(str.isascii, _NAME_ENDINGS):
        by_beginning.setdefault(word[:3], []).append(word)
    for words in by_beginning.values():
        pattern = re.compile(f"{match_longest(words)}s?[0-9_]{{0,3}}{_SIGN}".encode())
        yield min(words, key=len).encode(), pattern


_SIGN = r"([\\\"'`\]>]{0,4}[ \t]{0,3}(?::=|=>|==|[:=])|[\"']?>)"
_NAMES_AND_SIGNS = list(_patterns_of_names_and_signs())
_FOREIGN_NAMES = [word for word in _NAME_ENDINGS if not word.isascii()]
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
_MAX_VALUE_CHARS = 4096


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
    at = text.find(quote, start, start + _MAX_VALUE_CHARS)
    while at > start and len(quote) == 1 and text[at - 1] == "\\" and text[at - 2] != "\\":
        at = text.find(quote, at + 1, start + _MAX_VALUE_CHARS)
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
_MAX_COMMAND_CHARS = 400


def find_command_passwords(text: str) -> Iterator[Secret]:
    """`docker login -p hunter2`, `mysql -phunter2`: passwords in short options of commands that take them there."""
    for option in _OPTION.finditer(text):
        line = text[max(0, option.start() - _MAX_COMMAND_CHARS) : option.start()].rpartition("\n")[2]
        command = _COMMANDS[option[1] or option[2] or option[4]].search(line)
        if command is None or is_placeholder(option[5]) or (option[3] and command[0].startswith(_ONLY_JOINED)):
            continue
        if command[0] != "login" or " -u" in line or " --user" in line or is_like_password(option[5]):
            yield Secret(*option.span(5), "password")
