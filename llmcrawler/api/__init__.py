"""The Python API: read a page, explore a site, take records of pages, archives and batches."""
