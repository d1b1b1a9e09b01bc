"""Spiders of this project. Scrapy imports this package before the modules in it, in every process that crawls."""

import os

# The matrices of templates are small: threads of the numeric library wait for each other, at twice the processor time.
# It reads this when numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Imported first: for the names of its deprecated classes, Scrapy looks through all modules that are loaded, once for
# each caller of the import. Behind those of ours that takes two or three times as long.
import scrapy.core.downloader.handlers.http11
