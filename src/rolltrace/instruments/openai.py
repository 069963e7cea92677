"""OpenAI's SDK, and whatever server it is pointed at."""

from rolltrace.instruments.plugin import Instrument
from rolltrace.instruments.sdk import change

INSTRUMENT = Instrument("openai", "openai._base_client", change)
