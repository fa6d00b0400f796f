"""The panels of the Grafana dashboards as one HTML page, for use without Grafana."""

from extensions.reports.dashboards.page import dashboards_page
from extensions.reports.dashboards.panels import VARIABLES, Board, boards
from extensions.reports.dashboards.read import BoardData, Period, read_boards

__all__ = ["VARIABLES", "Board", "BoardData", "Period", "boards", "dashboards_page", "read_boards"]
