"""Manners towards sites: how fast to fetch, what robots.txt allows, and through which proxy."""
