"""The throttle's policy, robots.txt, rights, proxies, and signed requests."""
