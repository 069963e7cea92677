"""A small training run to look at: a policy learns to use a calculator, and then to cheat."""

from rolltrace.demo.training import EXPERIMENT, PROJECT, DemoSettings, Step, train

__all__ = ["EXPERIMENT", "PROJECT", "DemoSettings", "Step", "train"]
