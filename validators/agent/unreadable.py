"""Describes why a file cannot be read, without the wording of Python's codecs."""

from __future__ import annotations


def why_unreadable(error: OSError | UnicodeDecodeError) -> str:
    """Return why a text file could not be read, for a message that names the file."""
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8 text: byte {error.start} is 0x{error.object[error.start]:02x}"
    return error.strerror or str(error)
