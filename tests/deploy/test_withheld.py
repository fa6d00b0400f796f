"""Messages about objects that were not applied because they depend on an object that is not ready."""

from __future__ import annotations

from gpu_platform.deploy.changes import Action, Change, Changes
from gpu_platform.deploy.embedded.wait import NotReady, Unready
from gpu_platform.deploy.embedded.withheld import withheld_text
from gpu_platform.live.objects import ObjectKey

QUOTA = ObjectKey("", "ResourceQuota", "search", "gpu-quota")
POLICY = ObjectKey("networking.k8s.io", "NetworkPolicy", "vision", "default-deny")
PRIORITY = ObjectKey("scheduling.k8s.io", "PriorityClass", "", "training")


def test_of_what_was_not_applied_the_changes_are_listed() -> None:
    changes = (
        Change(Action.UPDATE, QUOTA),
        Change(Action.UNCHANGED, POLICY),
        Change(Action.CREATE, PRIORITY),
    )
    said = withheld_text([QUOTA, POLICY], 3, Changes("shop", changes))
    assert said.splitlines() == [
        "2 of 3 objects were not applied; these objects would change:",
        "  - update ResourceQuota gpu-quota in namespace search",
    ]


def test_many_changes_are_counted_and_the_first_of_them_listed() -> None:
    keys = [ObjectKey("", "ResourceQuota", f"team-{number}", "gpu-quota") for number in range(20)]
    said = withheld_text(keys, 50, Changes("shop", tuple(Change(Action.UPDATE, key) for key in keys)))
    assert len(said.splitlines()) == 10
    assert said.endswith("  - and 12 more")


def test_without_a_comparison_the_namespaces_are_named() -> None:
    said = withheld_text([QUOTA, POLICY, PRIORITY], 4, None)
    counts = "1 in namespace search, 1 in namespace vision, 1 without a namespace"
    assert said == f"3 of 4 objects were not applied: {counts}"


def test_an_unready_object_is_reported_with_the_objects_not_applied() -> None:
    error = NotReady("not ready in time:", [Unready(PRIORITY, 3, "it does not exist")])
    lines = str(error.withholding(withheld_text([QUOTA], 2, None))).splitlines()
    assert lines[0] == "not ready in time:"
    assert lines[-1] == "1 of 2 objects were not applied: 1 in namespace search"
    assert withheld_text([], 2, None) == ""
