"""Indexing: selections, fields, views, and what reading a selection would do."""
