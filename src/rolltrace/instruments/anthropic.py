"""Anthropic's SDK."""

from rolltrace.instruments.plugin import Instrument
from rolltrace.instruments.sdk import change

INSTRUMENT = Instrument("anthropic", "anthropic._base_client", change)
