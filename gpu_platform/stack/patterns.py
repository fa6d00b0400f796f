"""Descriptions of the values that the patterns of a stack file allow. Errors contain these descriptions and never
a regular expression.
"""

from __future__ import annotations

_WORDS: dict[str, str] = {}


def worded(pattern: str, words: str) -> str:
    """Return a pattern for `Field(pattern=...)` whose errors contain `words`."""
    _WORDS[pattern] = words
    return pattern


def in_words(pattern: str) -> str:
    """Return a description of the values that a pattern allows, or an empty string if the field's examples
    describe them.
    """
    return _WORDS.get(pattern, "")


NO_SPACES = worded(r"^\S+$", "a string without spaces")
NOT_BLANK = worded(r"\S", "a string that is not empty")
SERVICE_ACCOUNT = worded(
    r"^[a-z][a-z0-9-]{4,28}[a-z0-9]@[a-z0-9-]+\.iam\.gserviceaccount\.com$",
    "the e-mail of a service account: 6 to 30 lower-case letters, digits and hyphens, then "
    "@PROJECT.iam.gserviceaccount.com",
)
URL_PATH = worded(r"^/\S*$", "a path that starts with / and has no spaces")
