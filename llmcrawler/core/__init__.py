"""What understands pages and keeps crawls, without Scrapy and Twisted: programs of other kinds use these parts too."""
