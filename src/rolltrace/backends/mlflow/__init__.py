"""MLflow: one trace per trajectory, in the experiment named as the project, tied to the run."""

from rolltrace.backends.mlflow.backend import MlflowBackend

__all__ = ["MlflowBackend"]
