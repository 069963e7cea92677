"""Anthropic's SDK."""

from rolltrace.instruments.sdk import change
from rolltrace.integrations import Instrument

INSTRUMENT = Instrument("anthropic", "anthropic._base_client", change)
