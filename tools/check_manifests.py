#!/usr/bin/env python3
"""Validates the manifests of `trainer launch --emit` against published schemas, which you download first:

    pip install jsonschema pyyaml
    tools/check_manifests.py build/release/bin/trainer CONFIG.yaml \\
        --pytorchjob kubeflow.org_pytorchjobs.yaml --jobset jobset.x-k8s.io_jobsets.yaml --compose compose-spec.json

Unknown keys are errors, too: Kubernetes would drop them in silence. Prints what was checked; exit 1 if anything fails."""

import argparse
import json
import pathlib
import subprocess
import sys

import jsonschema
import yaml

SIZES = ([], ["--num_machines", "2", "--num_processes", "4"],
         ["--num_machines", "2", "--num_processes", "4", "--set", "distributed_type=MULTI_GPU", "--set",
          "use_cpu=false", "--metrics_port", "9400"])


def strict(schema):
    """The schema, with unknown keys refused wherever keys are listed."""
    if isinstance(schema, list):
        return [strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: strict(part) for key, part in schema.items()}
    if isinstance(result.get("properties"), dict) and not result.get("x-kubernetes-preserve-unknown-fields"):
        result.setdefault("additionalProperties", False)
    if result.pop("x-kubernetes-int-or-string", False):
        result = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    return result


def schema_of(kind, path):
    if kind == "compose":
        return json.loads(path.read_text())
    definition = yaml.safe_load(path.read_text())
    schema = strict(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
    schema["properties"]["metadata"] = {"type": "object"}  # a CRD leaves it open
    return schema


def keys(value):
    if isinstance(value, dict):
        return len(value) + sum(keys(part) for part in value.values())
    return sum(keys(part) for part in value) if isinstance(value, list) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trainer")
    parser.add_argument("config")
    for kind in ("pytorchjob", "jobset", "compose"):
        parser.add_argument(f"--{kind}", type=pathlib.Path)
    given = parser.parse_args()
    failures = 0
    for kind in ("pytorchjob", "jobset", "compose"):
        path = getattr(given, kind)
        if path is None:
            continue
        schema = schema_of(kind, path)
        validator = jsonschema.validators.validator_for(schema)(schema)
        for flags in SIZES:
            text = subprocess.run([given.trainer, "launch", "--emit", kind, "--config_file", given.config, *flags],
                                  check=True, capture_output=True, text=True).stdout
            manifest = yaml.safe_load(text)
            found = list(validator.iter_errors(manifest))
            failures += len(found)
            print(f"{kind} {' '.join(flags) or '(one machine)'}: {keys(manifest)} keys, {len(found)} errors")
            for error in found:
                print(f"  {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
