"""Turns the lines of a crawl into other forms: documents, Markdown files, tables, XML. Nothing here knows Scrapy."""
