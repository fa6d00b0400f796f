"""Answers the CNCF's Kubernetes AI Conformance for a stack: what meets each requirement, and what is missing."""

from gpu_platform.conformance.answers import Answer, Status, answers
from gpu_platform.conformance.document import as_json, product_file
from gpu_platform.conformance.live import observe

__all__ = ["Answer", "Status", "answers", "as_json", "observe", "product_file"]
