"""Scrapy middlewares: they stand between the engine and the network, and around the spider."""
