"""Commands refuse options that would have no effect, because users expect an effect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

CASES = (
    ("node-check --with-serials", ("--with-serials: found set; allowed: only with --record FILE",)),
    (
        "node-check --topology --record {tmp}/node.json --watch 30 --expect e.json",
        ("remove --record, or --topology", "remove --watch, or --topology", "remove --expect, or --topology"),
    ),
    (
        "guide local vision --manifest training --live --format html",
        ("remove --live, or --manifest", "remove --format, or --manifest"),
    ),
    ("schema --check --format json", ("remove --check, or --format json",)),
    ("team remove local vision --with-secrets --dry-run", ("add --export FILE, or remove --with-secrets",)),
    (
        "init mine --provider existing --node-names a,b --nodes 3 --region us-east-2 --out {tmp}/Pulumi.mine.yaml",
        ("remove --nodes, or --provider existing", "remove --region, or --provider existing"),
    ),
    (
        "init mine --zone us-east-2a --out {tmp}/Pulumi.mine.yaml",
        ("--zone: found 'us-east-2a'; allowed: not with --provider sandbox",),
    ),
    ("capacity local --utilisation u.yaml --prometheus http://prometheus.invalid", ("leave one out",)),
)


@pytest.mark.parametrize(("line", "errors"), CASES, ids=[line.split(" --")[0] for line, _ in CASES])
def test_options_without_use_are_refused_all_at_once(
    run: Any, tmp_path: Path, line: str, errors: tuple[str, ...]
) -> None:
    code, out, err = run(*line.format(tmp=tmp_path).split())

    assert code == 2
    for error in errors:
        assert error in out + err  # `out` contains the error if the output is JSON
    assert list(tmp_path.iterdir()) == []


def test_a_guide_manifest_as_json_lists_the_objects_of_the_yaml(run: Any) -> None:
    arguments = ["guide", "local", "vision", "--manifest", "training"]

    document = json.loads(run(*arguments, "--format", "json")[1])

    assert document["kind"] == "List"
    assert document["items"] == list(yaml.safe_load_all(run(*arguments)[1]))
