"""Benchmarks; each module with a `main` prints its own table (`python -m benchmarks.hot_path`)."""
