"""What outlives a crawl."""

from llmcrawler.storage.templates import SiteState, StoredSite, TemplatesFile

__all__ = ["SiteState", "StoredSite", "TemplatesFile"]
