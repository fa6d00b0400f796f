"""Checklist for a platform before production, with evidence for each point."""

from extensions.reports.production.checklist import Point, Status, Subject, checklist

__all__ = ["Point", "Status", "Subject", "checklist"]
