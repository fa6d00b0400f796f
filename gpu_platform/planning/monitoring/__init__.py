"""DCGM metrics, scraping and alerts."""
