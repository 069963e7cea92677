"""Which agent a call comes from: the trajectory that its context names, else the session that it tells itself."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from rolltrace._guard import logger
from rolltrace.capture import Recorder, TrajectoryHandle, place_of_context, scope
from rolltrace.errors import ContextError
from rolltrace.instruments import Conversation, Conversations

MAX_SESSIONS = 4096
_HEADERS = ("x-claude-code-session-id", "session_id", "session-id", "x-session-id", "conversation_id")


class Sessions:
    """Those that were heard of lately."""

    def __init__(self) -> None:
        self._conversations: OrderedDict[str, Conversations] = OrderedDict()
        self._loose = Conversations()
        self._has_warned = False

    def conversation(
        self, recorder: Recorder, context: str, headers: Mapping[str, str], name: str, asked: Any
    ) -> Conversation | None:
        """What a call goes on with; None if nothing is to be recorded of it."""
        key, is_own = context, False
        root: scope.Place | None = None
        if context:
            try:
                root = place_of_context(context)
            except ContextError as error:
                if not self._has_warned:
                    self._has_warned = True
                    logger.warning("a proxied call names no place that can be: %s; it is recorded without one", error)
            if root is scope.MUTED:
                return None
        if root is None:
            key = _session(headers, asked)
            is_own = True
        if not key:
            return self._loose.of(recorder, name, asked)
        conversations = self._conversations.get(key)
        if conversations is None:
            handle = root if isinstance(root, TrajectoryHandle) else TrajectoryHandle(recorder)
            conversations = self._conversations[key] = Conversations(handle, is_own_root=is_own)
        self._conversations.move_to_end(key)
        while len(self._conversations) > MAX_SESSIONS:
            self._conversations.popitem(last=False)
        return conversations.of(recorder, name, asked)


def _session(headers: Mapping[str, str], asked: Any) -> str:
    """What agents call the run that they are in: Claude Code in a header, Codex in a header and as the cache's key."""
    session = next((headers[name] for name in _HEADERS if headers.get(name)), None)
    if session is None and isinstance(asked, dict):
        session = asked.get("prompt_cache_key")
    return session if isinstance(session, str) and len(session) < 1000 else ""
