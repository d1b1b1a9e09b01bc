"""Limits for what comes from outside: processes with limits of time and memory, JSON, large bodies."""
