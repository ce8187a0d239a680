"""Foundations without arrays: settings, progress, tasks, calls of the engine that an event loop awaits."""
