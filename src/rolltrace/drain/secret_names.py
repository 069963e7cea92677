"""Which names belong to secrets, and what a value must look like to be one.

A name counts by its last words, however they are joined: `openai_api_key`, `AWS_SECRET_ACCESS_KEY`, `clientSecret`,
`x-api-key`. Three strengths:

STRONG    the value is a secret, whatever it looks like (`api_key`, `Authorization`, `DB_PASSWORD`, `hf_token`),
          unless it is empty, a placeholder (`<your key>`, `${KEY}`, `xxx`, `null`) or plain prose
PASSWORD  `password` alone: six characters or more, and among them a digit or a special character
WEAK      `token`, `secret` or `auth` alone, or after a word that says nothing (`game_secret`): only what looks random

The lists below are the only ones: what is looked for in text (`NAME_ENDINGS`) is made from them.
Token counts, special tokens and page tokens (`max_tokens`, `eos_token`, `next_page_token`) are no secrets.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from rolltrace.drain.secret_shapes import VENDORS, looks_random


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
    words = [word.lower() for word in _WORDS.findall(name[-_LONGEST_NAME:])]
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
NAME_ENDINGS = sorted(
    word
    for word in _LAST_WORDS - {word + "s" for word in _LAST_WORDS}
    if not any(word.endswith(other) for other in _LAST_WORDS - {word})
)
"""How every name that secrets have ends, but for plurals and numbers."""
ONLY_AFTER_A_WORD = frozenset(_STRONG_BEFORE) - _WEAK_WORDS
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
    max_mean_run = 2.5 if not has_digit or "/" in head else 5.5 if len(head) >= 20 and head.isalnum() else 4.0
    return (has_digit or len(head) >= 16) and looks_random(head, min_runs=4, max_mean_run=max_mean_run)
