"""Asks a language model: chooses it, keeps to limits and a budget, batches questions, and caches answers."""
