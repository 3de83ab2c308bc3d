"""Reads the YAML tables of ``kgroup/data``; tests check their rows; here only a damaged installation is an error."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import TypeVar

from kgroup.support.errors import KgroupError

T = TypeVar("T")


def read_tables(build: Callable[..., T], *names: str) -> T:
    """What ``build`` makes of these files, of each the tables by name.

    Raises KgroupError [installation] if a file is missing, or does not have the content of this release.
    """
    import yaml  # imported here: few verbs read these files

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        texts = [files("kgroup").joinpath("data", name).read_text(encoding="utf-8") for name in names]
        return build(*(yaml.load(text, Loader=loader) for text in texts))
    except (OSError, yaml.YAMLError, ValueError, TypeError, KeyError) as error:
        what = " ".join(f"{type(error).__name__}: {error}".split())
        raise KgroupError(
            f"this installation of kgroup is damaged: {' or '.join(names)} in its data cannot be read: {what}",
            hint="Install kgroup again.",
            code="installation",
        ) from error
