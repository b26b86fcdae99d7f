#!/usr/bin/env python3
"""Writes the bill of materials of a package as SPDX 2.3 JSON: sbom.py VERSION REVISION [--wheels] [--cuda] [--libraries FILE…]

It lists trainer, with --wheels the bundled libraries of tools/wheels.txt and wheels_arrow.txt, with --cuda those of
tools/wheels_cuda.txt, the Debian packages of the bundled libraries, and what the programs were only compiled with:
header-only libraries, and CUDA's compiler. Format: https://spdx.github.io/spdx-spec/v2.3/
"""

import argparse
import json
import pathlib
import re
import subprocess
import time

TOOLS = pathlib.Path(__file__).resolve().parents[1]
HEADERS_ONLY = ["libcli11-dev", "nlohmann-json3-dev", "libgloo-dev", "libjs-chart.js"]


def debian_package(library: str) -> str:
    """The package that owns a library's file. /lib is a link to /usr/lib, so dpkg may have recorded either path."""
    path = str(pathlib.Path(library).resolve())
    for name in (path, path.removeprefix("/usr")):
        found = subprocess.run(["dpkg-query", "--search", name], capture_output=True, text=True)
        if found.returncode == 0:
            return found.stdout.split(":")[0]
    raise SystemExit(f"error: no Debian package owns {library}")


def debian_entry(package: str) -> dict:
    version, source = subprocess.run(
        ["dpkg-query", "--show", "--showformat", "${Version} ${source:Package}\n", package],
        capture_output=True, text=True, check=True).stdout.split("\n")[0].split()
    return entry(package, version, f"pkg:deb/debian/{source}@{version}?arch=amd64")


def entry(name: str, version: str, locator: str | None = None) -> dict:
    found = {
        "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]", "-", name),
        "name": name,
        "versionInfo": version,
        "downloadLocation": "NOASSERTION",
        "filesAnalyzed": False,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": "NOASSERTION",
        "copyrightText": "NOASSERTION",
    }
    if locator:
        found["externalRefs"] = [
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": locator}]
    return found


def wheels(file: str, libraries: bool = True) -> list[dict]:
    """Those with libraries, which programs load, or the others, which compile them."""
    rows = [line.split() for line in (TOOLS / file).read_text().splitlines() if line and not line.startswith("#")]
    found = []
    for name, version, file, sha256, members in rows:
        if ("/lib/" in members or ".so" in members) != libraries:
            continue
        found.append(entry(name, version, f"pkg:pypi/{name}@{version}"))
        found[-1]["packageFileName"] = file
        found[-1]["checksums"] = [{"algorithm": "SHA256", "checksumValue": sha256}]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("version")
    parser.add_argument("revision")
    parser.add_argument("--wheels", action="store_true", help="libtorch and its libraries are bundled")
    parser.add_argument("--cuda", action="store_true", help="the libraries of a build for NVIDIA GPUs are bundled")
    parser.add_argument("--libraries", nargs="*", default=[], help="bundled shared libraries of this machine")
    asked = parser.parse_args()

    trainer = entry("trainer", asked.version)
    bundled = [debian_entry(name) for name in sorted({debian_package(file) for file in asked.libraries})]
    bundled += wheels("wheels.txt") + wheels("wheels_arrow.txt") if asked.wheels else []
    seen = {package["SPDXID"] for package in bundled}
    bundled += [package for package in (wheels("wheels_cuda.txt") if asked.cuda else []) if package["SPDXID"] not in seen]
    compiled_in = [debian_entry(name) for name in HEADERS_ONLY]
    compiled_in += wheels("wheels_cuda.txt", libraries=False) if asked.cuda else []
    relationships = [("SPDXRef-DOCUMENT", "DESCRIBES", trainer)]
    relationships += [(trainer["SPDXID"], "CONTAINS", package) for package in bundled]
    relationships += [(package["SPDXID"], "BUILD_DEPENDENCY_OF", trainer) for package in compiled_in]
    print(json.dumps({
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"trainer-{asked.version}",
        "documentNamespace": f"urn:trainer:{asked.version}:{asked.revision}",
        "creationInfo": {"created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "creators": ["Tool: sbom.py"]},
        "packages": [trainer, *bundled, *compiled_in],
        "relationships": [{"spdxElementId": left, "relationshipType": kind, "relatedSpdxElement": right["SPDXID"]}
                          for left, kind, right in relationships],
    }, indent=1))


if __name__ == "__main__":
    main()
