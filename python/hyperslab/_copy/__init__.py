"""Copying arrays and groups, at once or by a plan."""
