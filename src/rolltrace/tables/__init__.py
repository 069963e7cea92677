"""Keep: Delta tables in a folder or on object storage."""
