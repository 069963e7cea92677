"""Weave: one trace per trajectory, with its scores, in the W&B project named as ours."""

from rolltrace.backends.weave.backend import WeaveBackend

__all__ = ["WeaveBackend"]
