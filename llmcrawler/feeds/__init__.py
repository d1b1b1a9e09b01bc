"""What the lines of a crawl become in other forms: documents, folders of Markdown, tables. No form knows Scrapy."""
