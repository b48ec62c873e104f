"""Prints `name==version` for the low end of every range in a pyproject.toml: constraints for the oldest environment."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path(sys.argv[1]).read_text())["project"]
needs = [*project["dependencies"], *(need for extra in project["optional-dependencies"].values() for need in extra)]
for need in sorted(set(needs)):
    match = re.fullmatch(r"([\w-]+)(?:\[\w+\])?\s*(?:>=|==)([\d.]+).*", need)
    if match and match[1] != project["name"]:
        print(f"{match[1]}=={match[2]}")
