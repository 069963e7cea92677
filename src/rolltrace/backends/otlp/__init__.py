"""OpenTelemetry's protocol, http/protobuf: for Phoenix, Langfuse, Tempo, MLflow's own endpoint and every collector."""

from rolltrace.backends.otlp.backend import OtlpBackend

__all__ = ["OtlpBackend"]
