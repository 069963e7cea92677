"""Which names belong to secrets, and what a value must look like to be one.

A name counts by its last words, however they are joined: `openai_api_key`, `AWS_SECRET_ACCESS_KEY`, `clientSecret`,
`x-api-key`. Three strengths:

STRONG    the value is a secret, whatever it looks like (`api_key`, `Authorization`, `DB_PASSWORD`, `hf_token`),
          unless it is empty, a placeholder (`<your key>`, `${KEY}`, `xxx`, `null`) or plain prose
PASSWORD  `password` alone: six characters or more, and among them a digit or a special character
WEAK      `token`, `secret` or `auth` alone, or after a word that says nothing (`game_secret`): only what looks random

Token counts, special tokens and page tokens (`max_tokens`, `eos_token`, `next_page_token`) are no secrets.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache


class Strength(IntEnum):
    """How much a name says about its value."""

    NONE = 0
    WEAK = 1
    PASSWORD = 2
    STRONG = 3


_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\x00-\x7f]+")
_LONGEST_NAME = 80


def _words_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


_STRONG_WORDS = _words_of(
    "apikey apikeys apitoken apisecret accesskey secretkey privatekey accesstoken authtoken refreshtoken sessiontoken "
    "clientsecret authkey accountkey authorization passphrase cookie cookies setcookie credential credentials "
    "sharedkey 密码 口令 密钥"
)
_PASSWORDS = _words_of("password passwords passwd pwd passcode")
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
_NO_SECRET_BEFORE_TOKEN = _words_of(
    "page next continuation pagination cursor pad eos bos unk mask cls sep stop image video audio special start end "
    "first last prev previous current new max min num per input output prompt completion total target text sync cancel "
    "cancellation word sub vocab tool think"
)
_SINGULAR = {"keys": "key", "tokens": "token", "secrets": "secret"}


@lru_cache(maxsize=8192)
def strength(name: str) -> Strength:
    """How much a name says: `strength("hf_token")` is STRONG, of `token` WEAK, of `keyboard` NONE."""
    words = [word.lower() for word in _WORDS.findall(name[-_LONGEST_NAME:])]
    while len(words) > 1 and words[-1].isdigit():  # api_key_2
        words.pop()
    if not words:
        return Strength.NONE
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last in _STRONG_WORDS:
        return Strength.STRONG
    if last in _PASSWORDS:
        return Strength.STRONG if before else Strength.PASSWORD
    last_singular = _SINGULAR.get(last, last) if before else last
    if before in _STRONG_BEFORE.get(last_singular, ()):
        return Strength.NONE if _PUBLIC_BEFORE.intersection(words) else Strength.STRONG
    if last == "token" and before in _NO_SECRET_BEFORE_TOKEN:
        return Strength.NONE
    return Strength.WEAK if last in _WEAK_WORDS else Strength.NONE


_PLACEHOLDER = re.compile(
    r"(?i)[\s.*x_#•?-]*"
    r"|<.*>|\{.*\}|\$\{.*\}|\$\(.*\)|\$[A-Z_][A-Z0-9_]*|%[A-Z_(].*"
    r"|\[redacted.*|\[?(?:redacted|filtered|hidden|masked|secret)\]?"
    r"|none|null|nil|undefined|true|false|string|str|text|bytes|any|optional|required|todo|tbd|unset|empty|not[ _-]set"
    r"|password|passwd|token|api[ _-]?key|secret[ _-]?key|value|change[ _-]?me"
    r"|(?:your|my|the|an?|some|insert|enter|replace)[ _-].*|.*[ _-](?:here|placeholder)|.*example.*|.*\.\.\."
    r"|bearer|basic"
)
_PROSE = re.compile(r"(?:[A-Za-z'’]{1,20}[,.:;!?]?(?:\s+|$)){3,}")
_RUN = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_SPECIAL_CHARACTER = re.compile(r"[^A-Za-z0-9\s_.'’-]")
_CODE_CHARACTER = re.compile(r"[\s<>|{}()\[\]\"'`\\,;]")
_LONGEST_JUDGED = 256


def is_placeholder(value: str) -> bool:
    """Whether a text stands for a secret without being one."""
    return _PLACEHOLDER.fullmatch(value[:_LONGEST_JUDGED].strip()) is not None


def is_secret(how_strong: Strength, value: str) -> bool:
    """Whether the value of a name of this strength is a secret."""
    if not how_strong or is_placeholder(value):
        return False
    if how_strong is Strength.STRONG:
        return _PROSE.fullmatch(value[:_LONGEST_JUDGED].strip()) is None
    if how_strong is Strength.PASSWORD:
        return is_like_password(value)
    return is_like_credential(value)


def is_like_password(value: str) -> bool:
    """Six characters or more in one word, with a letter, and a digit or a special character that words do not have."""
    if len(value) < 6 or len(value) > _LONGEST_JUDGED or any(map(str.isspace, value)):
        return False
    has_letter, has_digit = any(map(str.isalpha, value)), any(map(str.isdigit, value))
    return has_letter and (has_digit or _SPECIAL_CHARACTER.search(value) is not None)


def is_like_credential(value: str) -> bool:
    """Eight characters or more that look random and hold letters and digits: no words, no code, nothing but ASCII."""
    head = value[:_LONGEST_JUDGED]
    if len(head) < 8 or not head.isascii() or _CODE_CHARACTER.search(head):
        return False
    has_digit = any(map(str.isdigit, head))
    longest_run = 2.5 if not has_digit or "/" in head else 4.0
    return (has_digit or len(head) >= 16) and looks_random(head, fewest_runs=4, longest_run=longest_run)


def looks_random(text: str, *, fewest_runs: int = 6, longest_run: float = 3.6) -> bool:
    """Whether letters and digits change places as often as chance would have it.

    A run is a word (also a capitalised one), capitals or digits. Random keys have runs of about two characters, names
    made of words have twice that and more: `sk-learn-compatible-estimators` is three runs.
    """
    runs = _RUN.findall(text[:64])
    return len(runs) >= fewest_runs and sum(map(len, runs)) <= longest_run * len(runs) and any(map(str.isalpha, runs))
