"""An agent under the instrumentation that is named first, against the model at the address that is named second."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

warnings.simplefilter("ignore")
ADD = {
    "type": "function",
    "function": {"name": "add", "description": "adds", "parameters": {"type": "object", "properties": {}}},
}


def openai_turns(url: str) -> None:
    """A call of a tool, then a streamed answer."""
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="x")
    said: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "17+25?"}]
    first = client.chat.completions.create(model="fake", messages=said, tools=[ADD], temperature=0.5)
    message = first.choices[0].message
    call = message.tool_calls[0]
    said += [message.model_dump(exclude_none=True), {"role": "tool", "tool_call_id": call.id, "content": "42"}]
    options = {"include_usage": True}
    for _ in client.chat.completions.create(model="fake", messages=said, stream=True, stream_options=options):
        pass


def openinference(url: str) -> None:
    from openinference.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument()
    openai_turns(url)


def traceloop(url: str) -> None:
    from opentelemetry.instrumentation.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument()
    openai_turns(url)


def genai(url: str) -> None:
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor

    OpenAIInstrumentor().instrument()
    openai_turns(url)


def anthropic(url: str) -> None:
    from anthropic import Anthropic

    client = Anthropic(base_url=url, api_key="x")
    said: list[Any] = [{"role": "user", "content": "17+25?"}]
    tools: Any = [{"name": "add", "input_schema": {"type": "object"}}]
    first = client.messages.create(model="fake", max_tokens=99, system="Be brief.", messages=said, tools=tools)
    result = {"type": "tool_result", "tool_use_id": first.content[0].id, "content": "42"}
    said += [{"role": "assistant", "content": first.model_dump()["content"]}, {"role": "user", "content": [result]}]
    client.messages.create(model="fake", max_tokens=99, system="Be brief.", messages=said, tools=tools)


def pydantic_ai(url: str) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    Agent.instrument_all(InstrumentationSettings())
    model = OpenAIChatModel("fake", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="x"))
    Agent(model, tools=[add], system_prompt="Be brief.").run_sync("17+25?")


if __name__ == "__main__":
    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), schedule_delay_millis=50))
    trace.set_tracer_provider(provider)
    where = {"rl.step": 3, "rl.sample_index": "q-1", "rl.rollout_n": 0}
    with trace.get_tracer("trainer").start_as_current_span("rollout", attributes=where) as rollout:
        globals()[sys.argv[1]](sys.argv[2])
        rollout.set_attribute("rl.reward", 1.0)
    provider.shutdown()
