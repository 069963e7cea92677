"""`clickhouse`: trajectories, ops, environment steps and notes as rows of a ClickHouse server."""

from rolltrace.backends.clickhouse.backend import ClickHouseBackend

__all__ = ["ClickHouseBackend"]
