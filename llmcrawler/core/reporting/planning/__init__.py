"""Estimates a crawl before it is paid for: from a sample of pages to the site's size and the calls of the model."""
