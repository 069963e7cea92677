"""How much anyone may ask of the server: every limit of the viewer once. docs/security.md says what each is against."""

from __future__ import annotations

QUICK_SEC, SLOW_SEC = 60.0, 120.0
"""How long a question may take, and one that reads payloads of many trajectories. Far more than is needed, so that a
machine that trains beside it is no reason to give up."""
QUERY_MEMORY = "2GB"
"""How much the database may take, for all questions of a lane together."""
MAX_STREAMS = 32
"""Pages that receive live updates at once."""
STREAM_SEC = 1800.0
"""How long such a page is sent updates before it has to ask again, as browsers do by themselves."""
MAX_CONNECTIONS = 256
"""Open connections; the next one is closed at once."""
MAX_HEAD_BYTES = 64 << 10
"""The request line and headers of one request."""
MAX_BODY_BYTES = 1 << 20
"""The body of one request."""
RECEIVE_SEC = 20.0
"""Until a request has arrived whole, counted from the connection, or from its first byte on a connection kept alive."""
UNREAD_SEC = 60.0
"""How long a client may leave what was sent to it unread."""
KEEP_ALIVE_SEC = 5
"""How long an idle connection stays open after an answer."""
FREE_GUESSES = 10
"""Wrong tokens that one address may show within `GUESSES_SEC` before its requests are slowed down."""
GUESSES_SEC = 60.0
SLOWED_SEC = 1.0
"""How long each request of such an address waits ..."""
MAX_SLOWED = 8
"""... and how many may wait at once; the rest are refused."""
MAX_ADDRESSES = 1024
"""Addresses whose wrong tokens are remembered."""
