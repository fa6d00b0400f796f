"""Check what a platform needs before production, point by point, with evidence."""

from gpu_platform.production.checklist import Point, Status, Subject, checklist

__all__ = ["Point", "Status", "Subject", "checklist"]
