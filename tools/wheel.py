"""Puts the Pulumi program and the packages next to gpu_platform into the wheel, below `gpu_platform/_bundle`.

At the top level of an environment, common names such as `components` could conflict with the user's modules. An
editable install instead has the whole checkout on the path.
"""

from __future__ import annotations

from pathlib import Path

from setuptools import find_packages  # pyrefly: ignore[untyped-import]
from setuptools.command.build_py import build_py  # pyrefly: ignore[untyped-import]

BUNDLE = "gpu_platform._bundle"
PACKAGES = ("components", "extensions", "policies", "sandbox", "validators")


class BuildWithBundle(build_py):
    """Builds the packages of a wheel or of an editable install."""

    build_lib: str  # pyrefly: ignore[bad-override-mutable-attribute]
    package_dir: dict[str, str]  # pyrefly: ignore[bad-override-mutable-attribute]
    packages: list[str]

    def finalize_options(self) -> None:
        """Add the bundle to the packages of a wheel."""
        super().finalize_options()
        if self.editable_mode:
            return
        self.package_dir[BUNDLE] = "."  # the folder of `__main__.py` and Pulumi.yaml
        bundled = find_packages(include=[*PACKAGES, *(f"{name}.*" for name in PACKAGES)])
        for package in bundled:
            self.package_dir[f"{BUNDLE}.{package}"] = package.replace(".", "/")
        self.packages = [*self.packages, BUNDLE, *(f"{BUNDLE}.{package}" for package in bundled)]

    def build_package_data(self) -> None:
        """Copy the data, and remove the policy pack's `virtualenv` setting, because a wheel has no `.venv`."""
        super().build_package_data()
        if not self.editable_mode:
            pack = Path(self.build_lib, *BUNDLE.split("."), "policies", "PulumiPolicy.yaml")
            lines = pack.read_text("utf-8").splitlines(keepends=True)
            pack.write_text("".join(line for line in lines if "virtualenv:" not in line), "utf-8")
