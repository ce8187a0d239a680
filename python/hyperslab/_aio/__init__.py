"""Arrays and groups for asyncio."""
