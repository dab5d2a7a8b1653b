"""Print the dependencies of pyproject.toml pinned to their lower bounds, one a line."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

BOUND = re.compile(r"(?P<name>[A-Za-z0-9._-]+)>=(?P<version>[0-9.]+)")


def lowest(dependencies: list[str]) -> list[str]:
    """`name>=version` becomes `name==version`; any other form is an error."""
    pins = []
    for dependency in dependencies:
        match = BOUND.fullmatch(dependency)
        if match is None:
            sys.exit(f"not a plain lower bound: {dependency}")
        pins.append(f"{match['name']}=={match['version']}")
    return pins


if __name__ == "__main__":
    text = Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8")
    print("\n".join(lowest(tomllib.loads(text)["project"]["dependencies"])))
