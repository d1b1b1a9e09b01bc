"""Urls as strings: their canonical form, their shape, which belong to a crawl, and where sites list them."""
