"""Crawls as jobs for clients: a folder of jobs, and what MCP, HTTP and pages for people show of them."""
