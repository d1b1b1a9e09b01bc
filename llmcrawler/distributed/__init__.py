"""State that the workers of one crawl share through Redis, beside its queue (frontier/redis.py)."""
