#!/usr/bin/env python3
"""Prints the software bill of materials of the program as CycloneDX 1.5 (JSON): every crate that is linked into it or
builds it, and the npm packages of its page.

    sbom.py [TARGET]    default: the target of this machine's rustc
"""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The packages that web/src imports.
PAGE = ["svelte", "uplot"]


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def crates(target):
    """The workspace's version, and the crates that the program `longfat` depends on, except those for tests only."""
    metadata = json.loads(
        output("cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target)
    )
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    program = next(id for id, package in packages.items() if package["name"] == "longfat")
    waiting, seen = [program], {program}
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            used = any(kind["kind"] != "dev" for kind in dependency["dep_kinds"])
            if used and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    foreign = [packages[id] for id in seen if packages[id]["source"]]
    return packages[program]["version"], sorted(foreign, key=lambda package: (package["name"], package["version"]))


def checksums():
    """The SHA-256 of each crate's archive, from Cargo.lock."""
    found, name, version = {}, None, None
    for line in (ROOT / "Cargo.lock").read_text().splitlines():
        key, _, value = line.partition(" = ")
        value = value.strip('"')
        if key == "name":
            name = value
        elif key == "version":
            version = value
        elif key == "checksum":
            found[name, version] = value
    return found


def npm_packages():
    """The packages that are part of the built page; web/package.json has others, which build and test it."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text())
    return [(name, lock["packages"][f"node_modules/{name}"]) for name in PAGE]


def licence(text):
    # Old crates separate alternatives by a slash.
    return [{"expression": text.replace("/", " OR ")}] if text else []


def main():
    target = sys.argv[1] if len(sys.argv) > 1 else output("rustc", "--print", "host-tuple").strip()
    version, packages = crates(target)
    sums = checksums()
    components = []
    for package in packages:
        component = {
            "type": "library",
            "name": package["name"],
            "version": package["version"],
            "purl": f"pkg:cargo/{package['name']}@{package['version']}",
            "licenses": licence(package["license"]),
        }
        if sha256 := sums.get((package["name"], package["version"])):
            component["hashes"] = [{"alg": "SHA-256", "content": sha256}]
        components.append(component)
    for name, package in npm_packages():
        components.append(
            {
                "type": "library",
                "name": name,
                "version": package["version"],
                "purl": f"pkg:npm/{name.replace('@', '%40')}@{package['version']}",
                "licenses": licence(package.get("license")),
            }
        )
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": "longfat",
                "version": version,
                "licenses": licence("MIT OR Apache-2.0"),
            },
            "properties": [{"name": "target", "value": target}],
        },
        "components": components,
    }
    print(json.dumps(document, indent=1))


if __name__ == "__main__":
    main()
