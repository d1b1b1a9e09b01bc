"""What replaces or completes parts of Scrapy's engine."""
