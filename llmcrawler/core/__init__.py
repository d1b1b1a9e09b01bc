"""The core: understands pages and stores crawls. It imports neither Scrapy nor Twisted; other programs can use it."""
