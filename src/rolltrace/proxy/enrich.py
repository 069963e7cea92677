"""What is asked of the upstream beyond what the agent asked, and taken out of the answer again.

vLLM and SGLang give token ids, logprobs and counts to whoever asks. An agent that did not ask might not understand
them: what it gets is what it would have got without us.
"""

from __future__ import annotations

from typing import Any

import msgspec

from rolltrace.instruments import EventBlocks

Body = dict[str, Any]


def asks_more(name: str, asked: Body) -> Body:
    """The request as it goes on; the same one if there is nothing to ask of this kind of call."""
    if name == "openai.chat.completions":
        more: Body = {"return_token_ids": True, "logprobs": True}
    elif name == "openai.completions":
        more = {"return_token_ids": True, **({} if asked.get("logprobs") is not None else {"logprobs": 1})}
    elif name == "sglang.generate":
        return asked if asked.get("return_logprob") else {**asked, "return_logprob": True}
    else:
        return asked
    if asked.get("stream"):
        options = asked.get("stream_options")
        more["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    return {**asked, **more}


def takes_out(asked: Body, answer: Any) -> Any:
    """The answer, or an event of it, as the agent would have got it; None if it would not have got it at all."""
    if isinstance(answer, list):  # SGLang's, to several prompts
        return [takes_out(asked, each) for each in answer]
    if not isinstance(answer, dict):
        return answer
    visible = dict(answer)
    streams = bool(asked.get("stream"))
    options = asked.get("stream_options")
    if streams and not (isinstance(options, dict) and options.get("include_usage")):
        if visible.get("choices") == [] and visible.get("usage") is not None:
            return None
        visible.pop("usage", None)
    if not asked.get("return_token_ids"):
        visible.pop("prompt_token_ids", None)
    if isinstance(visible.get("choices"), list):
        visible["choices"] = [_choice(asked, each) for each in visible["choices"]]
    info = visible.get("meta_info")
    if isinstance(info, dict) and not asked.get("return_logprob"):
        hidden = ("output_token_logprobs", "input_token_logprobs")
        visible["meta_info"] = {name: value for name, value in info.items() if name not in hidden}
    return visible


def _choice(asked: Body, choice: Any) -> Any:
    if not isinstance(choice, dict):
        return choice
    visible = dict(choice)
    if not asked.get("return_token_ids"):
        visible.pop("token_ids", None)
        visible.pop("prompt_token_ids", None)
    if not asked.get("logprobs") and visible.get("logprobs") is not None:
        visible["logprobs"] = None
    return visible


class StreamEditor:
    """Takes it out of the events of a stream. An event goes on when it is whole."""

    def __init__(self, asked: Body) -> None:
        self._asked = asked
        self._blocks = EventBlocks()

    def edited(self, chunk: bytes) -> bytes:
        return b"".join(map(self._event, self._blocks.feed(chunk)))

    def rest(self) -> bytes:
        return self._blocks.take_rest()

    def _event(self, whole: bytes) -> bytes:
        lines = whole.rstrip(b"\r\n").splitlines()
        data_lines = [line for line in lines if line.startswith(b"data:")]
        try:
            answer = msgspec.json.decode(b"\n".join(line[5:] for line in data_lines))
        except (msgspec.DecodeError, RecursionError):
            return whole
        visible = takes_out(self._asked, answer)
        if visible == answer:
            return whole
        if visible is None:
            return b""
        others = [line for line in lines if not line.startswith(b"data:")]
        return b"\n".join([*others, b"data: " + msgspec.json.encode(visible)]) + b"\n\n"
