#!/usr/bin/env python3
"""Reads packaging/docker/compose.yaml for tests, which cannot run docker compose.

    compose.py check LEAFCTL    what can be wrong without running it
    compose.py environment SERVICE    the variables, a line each
    compose.py command SERVICE    the words of the command, a line each
    compose.py mounts SERVICE    SOURCE:TARGET of the files that are mounted, a line each

Other services are at 127.0.0.1 in the tests.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

FILE = Path(__file__).resolve().parents[2] / "packaging" / "docker" / "compose.yaml"
VARIABLE = re.compile(r"\$\{(\w+):\?[^}]*\}")
# What leafctl and the official images read, by their manuals.
READ = {
    "database": {"POSTGRES_PASSWORD", "POSTGRES_DB", "POSTGRES_USER"},
    "leafctl": {"PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGPASSWORD", "PGPASSFILE"},
    "exporter": {"DATA_SOURCE_URI", "DATA_SOURCE_USER", "DATA_SOURCE_PASS"},
    "grafana": {"GF_SECURITY_ADMIN_PASSWORD"},
}


def services():
    return yaml.safe_load(FILE.read_text())["services"]


def filled(text):
    """The text with variables of the environment, and services at 127.0.0.1."""
    text = VARIABLE.sub(lambda variable: os.environ[variable[1]], str(text))
    names = "|".join(services())
    return re.sub(rf"\b({names})(?=$|:\d|/)", "127.0.0.1", text) if not text.startswith(("/", "-")) else text


def mounts(service):
    """Source and target of each file that is mounted."""
    volumes = (volume.split(":") for volume in service.get("volumes", []))
    return [(FILE.parent / source, target) for source, target, *_ in volumes if source.startswith(".")]


def help_of(program, *words):
    said = subprocess.run([program, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return said.stdout


def check(leafctl):
    """What is wrong, a text each."""
    compose = yaml.safe_load(FILE.read_text())
    variables = set(VARIABLE.findall(FILE.read_text()))
    example = set(re.findall(r"^(\w+)=$", (FILE.parent / "env.example").read_text(), re.MULTILINE))
    if variables != example:
        yield f"env.example and compose.yaml differ in {variables ^ example}"
    roles = set(re.findall(r"\$(\w+_PASSWORD)", (FILE.parent / "roles.sh").read_text()))
    helps = {
        "leafctl": help_of(leafctl, "serve", "--help"),
        "exporter": help_of("prometheus-postgres-exporter", "--help"),
        "prometheus": help_of("prometheus", "--help"),
    }
    for name, service in compose["services"].items():
        if ("build" in service) == ("image" in service):
            yield f"{name}: neither an image nor a build"
        if build := service.get("build"):
            # The folder is made by scripts/package.
            context = (FILE.parent / build["context"]).resolve()
            if context != FILE.parents[2] / "target" / "packages":
                yield f"{name}: the context is {context}"
            if not (context / build["dockerfile"]).resolve().is_file() and not (
                FILE.parent / Path(build["dockerfile"]).name
            ).is_file():
                yield f"{name}: there is no {build['dockerfile']}"
            if Path(build["dockerfile"]).parts[:4] != ("..", "..", "packaging", "docker"):
                yield f"{name}: {build['dockerfile']} is not relative to the context"
        elif ":" not in service["image"] or service["image"].endswith(":latest"):
            yield f"{name}: the image has no version"
        for source, _ in mounts(service):
            if not source.is_file():
                yield f"{name}: there is no {source}"
        for volume in service.get("volumes", []):
            if not volume.startswith(".") and volume.split(":")[0] not in compose["volumes"]:
                yield f"{name}: the volume {volume} is not declared"
        known = READ.get(name, set()) | (roles if name == "database" else set())
        if unknown := service.get("environment", {}).keys() - known:
            yield f"{name}: nothing reads {unknown}"
        for option in (word for word in service.get("command", []) if word.startswith("--")):
            if name in helps and not re.search(rf"{re.escape(option.split('=')[0])}\b", helps[name]):
                yield f"{name}: no such option: {option}"
        for other in service.get("depends_on", []):
            if other not in compose["services"]:
                yield f"{name}: there is no service {other}"
        for port in service.get("ports", []):
            if not port.startswith("127.0.0.1:"):
                yield f"{name}: the port {port} is open to other machines"


def main():
    action, name = sys.argv[1:]
    if action == "check":
        wrong = list(check(name))
        print("\n".join(wrong))
        sys.exit(len(wrong) > 0)
    service = services()[name]
    if action == "environment":
        lines = [f"{key}={filled(value)}" for key, value in service["environment"].items()]
    elif action == "command":
        lines = service.get("command", [])
    else:
        lines = [f"{source.resolve()}:{target}" for source, target in mounts(service)]
    print("\n".join(lines))


main()
