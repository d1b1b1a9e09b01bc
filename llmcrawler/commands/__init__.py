"""Commands of `scrapy` that this project changes or adds."""
