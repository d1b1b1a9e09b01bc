"""A Scrapy project that explores a site and tells what each of its pages is."""

__version__ = "0.1.0"
