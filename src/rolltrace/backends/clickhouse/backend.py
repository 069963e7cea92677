"""Writes trajectories to a ClickHouse server: one insert for each table and batch. A repeat replaces (tables.py)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from typing import Any

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from rolltrace.backends.backend import Refused, convert_each
from rolltrace.backends.clickhouse.tables import TABLES, VERSION, rows_of, statements, trajectory_row
from rolltrace.backends.values import without_password
from rolltrace.errors import BackendError, OutageError
from rolltrace.query import Trajectory

DEFAULT_URL = "http://localhost:8123"
DEFAULT_DATABASE = "rolltrace"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CODE = re.compile(r"\bcode:? (\d+)\b", re.IGNORECASE)
_NOBODY_CAN_WAIT_FOR = {
    "164": "the user may only read",
    "192": "the user is not known",
    "193": "the password is wrong",
    "194": "a password is required",
    "497": "the user lacks a privilege: CREATE, SELECT, INSERT and ALTER on the database",
    "516": "authentication failed: set CLICKHOUSE_USER and CLICKHOUSE_PASSWORD",
}  # fmt: skip
"""Codes of errors that somebody has to do something about -> what."""
_TIMEOUT_SEC = 60


class ClickHouseBackend:
    """Writes to one database of a server, which it makes if need be. See docs/howto/clickhouse.md."""

    def __init__(self) -> None:
        self._url = os.environ.get("CLICKHOUSE_URL") or DEFAULT_URL
        self._database = os.environ.get("CLICKHOUSE_DATABASE") or DEFAULT_DATABASE
        if not _NAME.fullmatch(self._database):
            raise BackendError(f"CLICKHOUSE_DATABASE must be a plain name such as rolltrace, not {self._database!r}")
        self._client: Client | None = None

    def send(self, trajectories: Sequence[Trajectory]) -> Sequence[Refused]:
        """Write the rows of each, its own last."""
        refused: dict[str, str] = {}
        converted = [rows for _, rows in convert_each(trajectories, rows_of, refused)]
        for table in TABLES:
            self._insert(table, [row for rows in converted for row in rows[table]])
        return [Refused(*each) for each in refused.items()]

    def update(self, trajectories: Sequence[Trajectory]) -> None:
        """Write the rows of trajectories anew, with their newest scores; nothing else has changed."""
        self._insert("trajectory_rows", [trajectory_row(each) for each in trajectories])

    def close(self) -> None:
        """Close the connection."""
        if self._client is not None:
            self._client.close()

    def _insert(self, table: str, rows: list[list[Any]]) -> None:
        if not rows:
            return
        columns, _ = TABLES[table]
        version = time.time_ns()
        try:
            client = self._connected()
            client.insert(
                table,
                [[*row, version] for row in rows],
                column_names=[*(column.name for column in columns), VERSION],
                column_type_names=[*(column.type for column in columns), "UInt64"],
                database=self._database,
                settings={"async_insert": 0},  # when it returns, the rows are there
            )
        except ClickHouseError as error:
            raise self._explained(error) from error

    def _connected(self) -> Client:
        if self._client is None:
            client = clickhouse_connect.get_client(
                dsn=self._url,
                username=os.environ.get("CLICKHOUSE_USER") or None,
                password=os.environ.get("CLICKHOUSE_PASSWORD") or "",
                autogenerate_session_id=False,
                connect_timeout=10,
                send_receive_timeout=_TIMEOUT_SEC,
            )
            for statement in statements(self._database):
                client.command(statement)
            self._client = client
        return self._client

    def _explained(self, error: ClickHouseError) -> Exception:
        """The error, as one that somebody has to do something about, or as an outage."""
        code = _CODE.search(str(error))
        what = _NOBODY_CAN_WAIT_FOR.get(code[1]) if code is not None else None
        if what is not None:
            return BackendError(f"ClickHouse at {without_password(self._url)}: {what} ({str(error)[:300]})")
        return OutageError(f"ClickHouse at {without_password(self._url)}: {str(error)[:500]}")
