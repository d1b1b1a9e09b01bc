"""Tells what pages are, which template made them, and what their records say."""
