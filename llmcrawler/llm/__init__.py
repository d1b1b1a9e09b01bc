"""Asking a language model: client, batching, cache, providers, and the embedded server."""
