"""Check what a platform needs before production, point by point, with evidence."""

from extensions.reports.production.checklist import Point, Status, Subject, checklist

__all__ = ["Point", "Status", "Subject", "checklist"]
