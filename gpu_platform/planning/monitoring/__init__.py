"""Decide the DCGM metrics, their scraping and the alerts."""
