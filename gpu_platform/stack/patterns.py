"""What a pattern of the stack file allows, in words: an error never shows a regular expression."""

from __future__ import annotations

_WORDS: dict[str, str] = {}


def worded(pattern: str, words: str) -> str:
    """Return a pattern for `Field(pattern=...)`, whose errors say `words`."""
    _WORDS[pattern] = words
    return pattern


def in_words(pattern: str) -> str:
    """Return what a pattern allows; an empty string if examples describe its field instead."""
    return _WORDS.get(pattern, "")


NO_SPACES = worded(r"^\S+$", "a text without spaces")
NOT_BLANK = worded(r"\S", "a text that is not empty")
SERVICE_ACCOUNT = worded(
    r"^[a-z][a-z0-9-]{4,28}[a-z0-9]@[a-z0-9-]+\.iam\.gserviceaccount\.com$",
    "the e-mail of a service account: 6 to 30 lower-case letters, digits and hyphens, then "
    "@PROJECT.iam.gserviceaccount.com",
)
URL_PATH = worded(r"^/\S*$", "a path that starts with / and has no spaces")
