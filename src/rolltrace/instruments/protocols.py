"""Which requests are model calls: the paths of OpenAI's, Anthropic's and SGLang's protocols."""

from __future__ import annotations

_NAMES = {
    "/chat/completions": "openai.chat.completions",
    "/completions": "openai.completions",
    "/responses": "openai.responses",
    "/messages": "anthropic.messages",
    "/generate": "sglang.generate",
}


def call_name(method: str, path: str) -> str | None:
    """What to call the op of a request; None if no model is asked."""
    if method.upper() != "POST":
        return None
    path = "/" + path.partition("?")[0].strip("/")
    return next((name for end, name in _NAMES.items() if path.endswith(end)), None)
