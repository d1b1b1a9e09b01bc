"""Scrapy middlewares: what stands between the engine and the network, and around the spider."""
