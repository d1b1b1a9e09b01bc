"""Shows a person how a crawl goes: its progress while it runs, a summary when it ends.

`display`, the live one, is imported only where it is shown, as rich's console is slow to load.
"""
