"""Cloud documents that grow with the stack file, such as IAM policies, and a check of their size.

The catalogue contains the size limits. The size of Kubernetes objects is checked when they are registered
(`components/_kubernetes_object.py`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpu_platform.catalog import Catalog
from gpu_platform.planning.problems import Problems


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A cloud document whose size is limited.

    `limit` is the limit's name in the catalogue. `place` is the stack file field that makes the document grow.
    """

    limit: str
    place: str
    what: str
    size: int
    fix: str


def policy_size(*statements: Mapping[str, Any]) -> int:
    """Return the number of characters that IAM counts for a policy with these statements."""
    document = {"Version": "2012-10-17", "Statement": list(statements)}
    return len(json.dumps(document, separators=(",", ":")))


def check_documents(documents: Iterable[Document], catalog: Catalog, problems: Problems) -> None:
    """Record a problem for each document that exceeds its limit.

    `problems` points to the root of the stack file.
    """
    for document in documents:
        limit = catalog.limits[document.limit]
        if document.size > limit.most:
            problems.at(document.place).add(
                f"{document.what} of {document.size:,} {limit.unit}",
                f"at most {limit.most:,} ({limit.source})",
                document.fix,
            )
