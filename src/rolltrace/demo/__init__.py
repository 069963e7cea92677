"""A small training run to look at: a policy learns to use a calculator, and then to cheat."""

from rolltrace.demo.training import EXPERIMENT, PROJECT, Settings, Step, train

__all__ = ["EXPERIMENT", "PROJECT", "Settings", "Step", "train"]
