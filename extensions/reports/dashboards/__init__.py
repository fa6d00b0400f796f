"""Draws the panels of the Grafana dashboards as one HTML page, where no Grafana can be installed."""

from extensions.reports.dashboards.page import dashboards_page
from extensions.reports.dashboards.panels import VARIABLES, Board, boards
from extensions.reports.dashboards.read import BoardData, Period, read_boards

__all__ = ["VARIABLES", "Board", "BoardData", "Period", "boards", "dashboards_page", "read_boards"]
