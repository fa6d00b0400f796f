"""Tools for developers of this repository. They are not installed with the package."""
