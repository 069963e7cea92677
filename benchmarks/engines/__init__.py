"""The same twenty questions to rolltrace and to engines that know nothing of it: `python -m benchmarks.engines`."""
