"""Campaigns: the crawls of many sites, in bundles of sites, with one data set out."""
