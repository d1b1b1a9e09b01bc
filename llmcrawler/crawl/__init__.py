"""Puts one crawl together: the parts that its components share, built once from settings and arguments."""
