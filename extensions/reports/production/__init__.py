"""Checklist to go through before a platform goes into production, with evidence for each point."""

from extensions.reports.production.checklist import Point, Status, Subject, checklist

__all__ = ["Point", "Status", "Subject", "checklist"]
