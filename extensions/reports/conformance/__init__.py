"""Reports how a stack meets the CNCF's Kubernetes AI Conformance: evidence for each requirement, or what is
missing.
"""

from extensions.reports.conformance.answers import Answer, Status, answers
from extensions.reports.conformance.document import as_json, product_file
from extensions.reports.conformance.live_answers import observe

__all__ = ["Answer", "Status", "answers", "as_json", "observe", "product_file"]
