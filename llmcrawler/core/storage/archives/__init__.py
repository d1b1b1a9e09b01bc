"""Web archives: what was asked and answered for each page, written as WARC and read from there."""
