#!/usr/bin/env python3
"""Post the review as a comment on a pull request (GitHub) or merge request (GitLab): comment.py COMMENT.md

The comment replaces the comment of an earlier run, which has the marker below and the same author. The script
needs only Python. On GitHub it reads GITHUB_REPOSITORY, NUMBER, GH_TOKEN and, for your own server, GITHUB_API_URL.
It also writes the review to the file that GITHUB_STEP_SUMMARY names. On GitLab it reads CI_API_V4_URL,
CI_PROJECT_ID, CI_MERGE_REQUEST_IID and GPU_PLATFORM_TOKEN.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

MARKER = "<!-- gpu-platform review -->"
PAGE = 100
ACTIONS = "github-actions[bot]"  # a job's token cannot query the account that it belongs to


@dataclass(frozen=True)
class Api:
    """The comments of one pull or merge request. `most` is the maximum number of characters of a comment."""

    comments: str
    one: Callable[[int], str]
    update: str
    headers: Mapping[str, str]
    author: Callable[[Mapping[str, Any]], str]
    account: str
    most: int


def main() -> None:
    """Create or replace the comment. Exit with a message if an environment variable is wrong, or if the server
    returns an error.
    """
    if len(sys.argv) != 2:
        sys.exit("usage: comment.py COMMENT.md")
    file = Path(sys.argv[1])
    if not file.is_file():
        sys.exit(f"error: no file {file}: review.sh did not finish writing it")
    text = file.read_text("utf-8")
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as page:
            page.write(f"{text}\n")
    try:
        print(write_comment(api(), text))
    except urllib.error.HTTPError as error:
        if error.code == 403:  # the token of a pull request from a fork is read-only
            print(
                f"::warning title=gpu-platform::{error.url} returned 403; the review is in the summary of this job"
            )
            return
        sys.exit(f"error: {error.url} answers {error.code} {error.reason}: check the token's permissions")
    except urllib.error.URLError as error:
        sys.exit(f"error: no response from the server: {error.reason}")


def write_comment(place: Api, text: str) -> str:
    """Replace the comment of an earlier run, or create a new one. Return what was done."""
    ending = "\n\n(cut: the whole text is in the job's files)\n"
    body = f"{MARKER}\n{text}"
    if len(body) > place.most:
        body = body[: place.most - len(ending)] + ending
    for comment in _comments(place):
        # Anybody can write the marker, so comments of other accounts are never changed.
        if MARKER in comment["body"] and place.author(comment) == place.account:
            _send(place.one(comment["id"]), place.headers, place.update, {"body": body})
            return f"replaced comment {comment['id']}"
    created = cast("dict[str, Any]", _send(place.comments, place.headers, "POST", {"body": body}))
    return f"created comment {created['id']}"


def api() -> Api:
    """Return an API client for the pull or merge request that the job's environment variables identify."""
    if "CI_MERGE_REQUEST_IID" in os.environ:
        base, project = _given("CI_API_V4_URL"), _given("CI_PROJECT_ID")
        notes = f"{base}/projects/{project}/merge_requests/{_given('CI_MERGE_REQUEST_IID')}/notes"
        headers = {"PRIVATE-TOKEN": _given("GPU_PLATFORM_TOKEN")}
        user = cast("dict[str, Any]", _send(f"{base}/user", headers))
        return Api(
            comments=notes,
            one=lambda number: f"{notes}/{number}",
            update="PUT",
            headers=headers,
            author=lambda note: note["author"]["username"],
            account=user["username"],
            most=1_000_000,
        )
    base = os.environ.get("GITHUB_API_URL", "https://api.github.com")
    issues = f"{base}/repos/{_given('GITHUB_REPOSITORY')}/issues"
    headers = {"Authorization": f"Bearer {_given('GH_TOKEN')}", "Accept": "application/vnd.github+json"}
    return Api(
        comments=f"{issues}/{_given('NUMBER')}/comments",
        one=lambda number: f"{issues}/comments/{number}",
        update="PATCH",
        headers=headers,
        author=lambda comment: comment["user"]["login"],
        account=_github_account(base, headers),
        most=65_536,
    )


def _github_account(base: str, headers: Mapping[str, str]) -> str:
    try:
        return str(cast("dict[str, Any]", _send(f"{base}/user", headers))["login"])
    except urllib.error.HTTPError as error:
        if error.code != 403:
            raise
        return ACTIONS


def _comments(place: Api) -> Iterator[dict[str, Any]]:
    page = 1
    while found := cast(
        "list[dict[str, Any]]", _send(f"{place.comments}?per_page={PAGE}&page={page}", place.headers)
    ):
        yield from found
        if len(found) < PAGE:
            return
        page += 1


def _given(name: str) -> str:
    if not os.environ.get(name):
        sys.exit(f"error: {name} is not set; see the docstring of this file")
    return os.environ[name]


def _send(url: str, headers: Mapping[str, str], method: str = "GET", body: object = None) -> object:
    if not url.startswith(("https://", "http://")):
        sys.exit(f"error: {url} is not the address of an API")
    data = None if body is None else json.dumps(body).encode()
    asked = urllib.request.Request(url, data, {**headers, "Content-Type": "application/json"}, method=method)  # noqa: S310
    with urllib.request.urlopen(asked, timeout=60) as answer:  # noqa: S310 - only http and https, as checked above
        return json.load(answer)


if __name__ == "__main__":
    main()
