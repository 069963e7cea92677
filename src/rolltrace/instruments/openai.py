"""OpenAI's SDK, and whatever server it is pointed at."""

from rolltrace.instruments.sdk import change
from rolltrace.integrations import Instrument

INSTRUMENT = Instrument("openai", "openai._base_client", change)
