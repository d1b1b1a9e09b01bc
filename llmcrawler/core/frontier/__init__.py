"""Queues of urls that are still to be fetched: which urls come in, and in which order they go out."""
