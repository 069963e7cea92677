"""rolltrace inside other frameworks: their coordinates become ours. Nothing else in rolltrace knows a framework."""
