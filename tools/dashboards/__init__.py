"""Grafana dashboards for the recorded metrics, built with Grafana's own SDK (Grafana 12 and newer)."""
