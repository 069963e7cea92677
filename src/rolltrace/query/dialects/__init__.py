"""The views of a store as SQL for engines that know nothing of rolltrace."""

from rolltrace.query.dialects.statements import DIALECTS, GENERATED, view_statements

__all__ = ["DIALECTS", "GENERATED", "view_statements"]
