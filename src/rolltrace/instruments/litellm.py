"""LiteLLM, by its own callbacks.

They may run in another thread, after the caller has gone on: where a call belongs is looked up when it begins, and kept
by the id that LiteLLM gives to it.
"""

from __future__ import annotations

from typing import Any

from rolltrace.instruments.op import OpenOp, Running, begin_turn, callback
from rolltrace.instruments.protocols import public_parameters
from rolltrace.integrations import Instrument, Undo
from rolltrace.record import Error


def change(litellm: Any) -> Undo:
    from importlib import import_module

    logger_class: Any = import_module("litellm.integrations.custom_logger").CustomLogger
    running: Running[OpenOp] = Running()

    class Recorder(logger_class):  # type: ignore[misc]
        """Never raises, as LiteLLM wants it."""

        @callback("litellm", begins=True)
        def log_pre_api_call(self, model: Any, messages: Any, kwargs: dict[str, Any]) -> None:
            key = kwargs.get("litellm_call_id")
            if not _is_model_call(kwargs.get("call_type")) or running.get(key) is not None:
                return  # an attempt after one that failed has the same id
            body = {"model": model, "messages": messages, **public_parameters(kwargs.get("optional_params"))}
            running.add(key, begin_turn("litellm.completion", body, outermost=True, ends_late="litellm"))

        @callback("litellm")
        def log_success_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
            whole = kwargs.get("complete_streaming_response") or kwargs.get("async_complete_streaming_response")
            if kwargs.get("stream") and whole is None:  # one of its pieces
                return
            op = running.take(kwargs.get("litellm_call_id"))
            if op is not None:
                op.finish(whole or response_obj)

        @callback("litellm")
        def log_failure_event(self, kwargs: dict[str, Any], response_obj: Any, start_time: Any, end_time: Any) -> None:
            op, failure = running.take(kwargs.get("litellm_call_id")), kwargs.get("exception")
            if op is not None and isinstance(failure, BaseException):
                op.failed(failure)
            elif op is not None:
                op.break_off(Error("LiteLLM", str(failure), ""))

        async def async_log_success_event(self, *args: Any, **kwargs: Any) -> None:
            self.log_success_event(*args, **kwargs)

        async def async_log_failure_event(self, *args: Any, **kwargs: Any) -> None:
            self.log_failure_event(*args, **kwargs)

    recorder = Recorder()
    litellm.callbacks.append(recorder)

    def undo() -> None:
        # It copies its callbacks into a list for each way to call them.
        for name, callbacks in list(vars(litellm).items()):
            if name.endswith(("callback", "callbacks")) and isinstance(callbacks, list):
                callbacks[:] = [each for each in callbacks if each is not recorder]

    return undo


def _is_model_call(call_type: Any) -> bool:
    """Whether a model is asked for text; LiteLLM tells of embeddings and images too."""
    type_name = str(getattr(call_type, "value", call_type) or "completion")
    return type_name.endswith(("completion", "responses", "messages"))


INSTRUMENT = Instrument("litellm", "litellm", change)
