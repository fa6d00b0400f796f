"""Draws the panels of the Grafana dashboards as one HTML page, where no Grafana can be installed."""

from gpu_platform.dashboards.page import dashboards_page
from gpu_platform.dashboards.panels import VARIABLES, Board, boards
from gpu_platform.dashboards.read import BoardData, Period, read_boards

__all__ = ["VARIABLES", "Board", "BoardData", "Period", "boards", "dashboards_page", "read_boards"]
