"""Adapts scrapy-playwright; nothing imports it before a page wants to be rendered."""
