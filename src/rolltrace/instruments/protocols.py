"""Which requests are model calls: the paths of OpenAI's, Anthropic's and SGLang's protocols."""

from __future__ import annotations

from typing import Any

_NAMES = {
    "/chat/completions": "openai.chat.completions",
    "/completions": "openai.completions",
    "/responses": "openai.responses",
    "/messages": "anthropic.messages",
    "/generate": "sglang.generate",
}

_PLAIN = (str, int, float, list, dict)
_PRIVATE = frozenset({"api_key", "extra_headers", "headers", "default_headers", "api_base", "base_url", "client"})
"""Parameters of frameworks that may hold a key, or are no part of a request."""


def call_name(method: str, path: str) -> str | None:
    """What to call the op of a request; None if no model is asked."""
    if method.upper() != "POST":
        return None
    path = "/" + path.partition("?")[0].strip("/")
    return next((name for end, name in _NAMES.items() if path.endswith(end)), None)


def public_parameters(parameters: Any) -> dict[str, Any]:
    """What a framework was given for a call beside the messages, without what is not to be recorded."""
    if not isinstance(parameters, dict):
        return {}
    return {name: value for name, value in parameters.items() if name not in _PRIVATE and isinstance(value, _PLAIN)}
