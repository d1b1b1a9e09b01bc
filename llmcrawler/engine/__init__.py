"""Replaces or completes parts of Scrapy's engine."""
