"""State that the workers of one crawl share through Redis, beside its queue (fleet/redis_frontier.py)."""
