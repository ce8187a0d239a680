"""Arrays and groups: their attributes, metadata, members and caches."""
