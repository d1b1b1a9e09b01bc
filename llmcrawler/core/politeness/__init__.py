"""How hard a host may be worked, what robots.txt and rights allow, proxies, and signed requests."""
