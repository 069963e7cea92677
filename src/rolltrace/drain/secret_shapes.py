"""Keys of the usual vendors, known by how they begin.

All of them are words of 16 characters or more of letters, digits, `_` and `-`; `secret_texts` finds such words, and
only those are looked at here. Each pattern is a beginning and one bounded class, so a match never goes back.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from rolltrace.drain.secret_names import looks_random


class Shape(NamedTuple):
    """How the keys of one kind look."""

    kind: str
    prefix: str
    """How they begin: a pattern that matches a few characters."""
    body: str
    """What follows."""
    random: bool = False
    """The beginning alone says too little: the rest must look random too."""


_WORD = "[A-Za-z0-9_-]"
_ALNUM = "[A-Za-z0-9]"
_HEX = "[0-9a-f]"

SHAPES = (
    Shape("anthropic key", "sk-ant-", _WORD + "{20,250}"),
    Shape("openrouter key", "sk-or-", _WORD + "{20,250}", random=True),
    Shape("openai key", "sk-", _WORD + "{20,250}", random=True),
    Shape("stripe key", "[sr]k_(?:live|test)_", _ALNUM + "{16,250}"),
    Shape("stripe key", "whsec_", "[A-Za-z0-9+/]{24,100}", random=True),
    Shape("elevenlabs key", "sk_", _HEX + "{40,64}"),
    Shape("github token", "gh[pousr]_", _ALNUM + "{30,255}"),
    Shape("github token", "github_pat_", "[A-Za-z0-9_]{22,255}"),
    Shape("gitlab token", "gl(?:pat|ptt|dt|rt|cbt|soat|ft|imt|agent|oas)-", _WORD + "{20,100}"),
    Shape("huggingface token", "(?:hf|api_org)_", _ALNUM + "{30,64}", random=True),
    Shape("aws key", "AKIA", r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    Shape("aws key", "(?:ASIA|ABIA|ACCA)", r"(?=[A-Z]{0,15}[0-9])[A-Z0-9]{16}(?![A-Za-z0-9])"),
    Shape("google key", "AIza", _WORD + "{35}"),
    Shape("google secret", "GOCSPX-", _WORD + "{20,64}"),
    Shape("slack token", "xox[abeoprs]-", "[A-Za-z0-9-]{10,250}"),
    Shape("slack token", "xapp-[0-9]-", "[A-Za-z0-9-]{10,250}"),
    Shape("twilio key", "SK", _HEX + "{32}(?![A-Za-z0-9])"),
    Shape("npm token", "npm_", _ALNUM + "{36,64}", random=True),
    Shape("pypi token", "pypi-", _WORD + "{32,250}", random=True),
    Shape("xai key", "xai-", _ALNUM + "{40,128}", random=True),
    Shape("replicate token", "r8_", _ALNUM + "{30,64}", random=True),
    Shape("databricks token", "dapi", _HEX + "{32}"),
    Shape("together key", "tgp_v1_", _WORD + "{20,128}", random=True),
    Shape("groq key", "gsk_", _ALNUM + "{40,128}", random=True),
    Shape("perplexity key", "pplx-", _ALNUM + "{40,128}", random=True),
    Shape("fireworks key", "fw_", _ALNUM + "{20,64}", random=True),
    Shape("pinecone key", "pcsk_", "[A-Za-z0-9_]{30,128}", random=True),
    Shape("nvidia key", "nvapi-", _WORD + "{40,128}", random=True),
    Shape("cerebras key", "csk-", _ALNUM + "{40,128}", random=True),
    Shape("langsmith key", "lsv2_(?:pt|sk)_", "[0-9a-f_]{32,64}"),
    Shape("wandb key", "wandb_v1_", _WORD + "{40,128}", random=True),
    Shape("tavily key", "tvly-", _WORD + "{20,64}", random=True),
    Shape("digitalocean token", "do[opr]_v1_", _HEX + "{64}"),
    Shape("shopify token", "shp(?:at|ca|pa|ss)_", "[0-9a-fA-F]{32}"),
    Shape("mailgun key", "key-", _HEX + "{32}(?![A-Za-z0-9])"),
    Shape("notion token", "(?:ntn_|secret_)", _ALNUM + "{40,64}", random=True),
    Shape("linear key", "lin_api_", _ALNUM + "{32,64}"),
    Shape("grafana token", "glsa_", "[A-Za-z0-9_]{32,64}"),
    Shape("postman key", "PMAK-", "[0-9a-f-]{40,64}"),
    Shape("e2b key", "e2b_", _HEX + "{40}"),
    Shape("age key", "AGE-SECRET-KEY-1", "[0-9A-Z]{50,64}"),
)

_prefixes = "|".join(dict.fromkeys(shape.prefix for shape in SHAPES))
VENDOR_PREFIX = re.compile(rf"(?<![A-Za-z0-9])(?:{_prefixes})")
"""Where in a word a key may begin."""
_vendor_key = re.compile("|".join(f"({shape.prefix}{shape.body})" for shape in SHAPES))
_MADE_UP = re.compile(r"EXAMPLE|x{8}|X{8}|0{12}|1234567890abcdef1234567890")


class VendorKey(NamedTuple):
    """A key of a vendor: where it ends, and what it is."""

    end: int
    kind: str


def vendor_key_at(text: str, at: int) -> VendorKey | None:
    """The key of a known shape that begins right there."""
    match = _vendor_key.match(text, at)
    if match is None or match.lastindex is None:
        return None
    shape = SHAPES[match.lastindex - 1]
    if _MADE_UP.search(match[0]) or (shape.random and not looks_random(match[0])):
        return None
    return VendorKey(match.end(), shape.kind)
