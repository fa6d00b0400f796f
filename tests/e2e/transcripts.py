"""Transcripts of commands on a cluster, without values that differ between runs and machines."""

from __future__ import annotations

import re

from tests.e2e.conftest import SANDBOX, Platform

PLAIN = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
_MOST = 24  # maximum number of output lines in a transcript


def steady(platform: Platform, text: str) -> str:
    """Return text without values that differ between runs and machines, such as paths, times, ports and tool
    versions.
    """
    for found, name in ((str(platform.folder), "TMP"), (SANDBOX, "SANDBOX")):
        text = text.replace(found, name)
    text = re.sub(r"/tmp/\S+/kubeconfig", "KUBECONFIG", text)
    text = re.sub(r"process \d+", "process NUMBER", text)
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
    text = re.sub(r"\b\d+(\.\d+)? ?(s|min)\b( \d+ s)?", "TIME", text)
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.+Z-]+", "INSTANT", text)
    text = re.sub(r"\b\d+ of \d+\b", "N of N", text)
    text = re.sub(r"(?m)^(resources +).*", r"\1RESOURCES", text)
    text = re.sub(r"\b[1-9]\d+ (objects|unchanged|to create)", r"N \1", text)
    text = re.sub(r"(create|unchanged) [1-9]\d*\b", r"\1 N", text)
    # Which object this line names depends on the speed of the machine.
    text = re.sub(r"(?m)^waited .* so far for .*\n", "", text)
    lines = [line.rstrip() for line in text.rstrip().splitlines()]
    # Other tests cover the lines after the limit, which change whenever a field is added.
    return "\n".join(lines if len(lines) <= _MOST else [*lines[:_MOST], "..."])
