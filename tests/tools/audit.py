"""`python -m tests.tools.audit PIP_AUDIT SITE_PACKAGES`: known vulnerabilities of installed packages.

Exit code 0: every package was audited and none is vulnerable. 1: at least one is vulnerable.
2: not every package was audited.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# Installed from this checkout, so no index lists it.
OWN = {"runspine", "runspine-climb"}
SHOWN = 10


def audit(command: list[str]) -> tuple[int, list[str]]:
    """Run pip-audit and return the exit code with the lines to print."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        return 2, [f"audit: nothing was audited: {error}"]
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except (ValueError, KeyError, TypeError):
        reason = (done.stderr.strip() or "pip-audit printed no report").splitlines()[-1]
        return 2, [f"audit: nothing was audited: {reason}", "audit: check the network and try again"]
    return assess(packages)


def assess(packages: list[dict[str, Any]]) -> tuple[int, list[str]]:
    """Exit code and lines for a report: vulnerable packages first, then those that were not audited."""
    audited = [package for package in packages if "vulns" in package]
    skipped = [package for package in packages if "vulns" not in package and package["name"] not in OWN]
    lines = [
        f"{package['name']} {package['version']}: {vuln['id']}, fixed in {vuln['fix_versions'] or 'none'}"
        for package in audited
        for vuln in package["vulns"]
    ]
    if lines:
        return 1, [*lines, f"audit: {len(lines)} known vulnerabilities"]
    if skipped or not audited:
        named = [f"{package['name']}: {package.get('skip_reason', 'skipped')}" for package in skipped[:SHOWN]]
        return 2, [*named, f"audit: {len(skipped)} packages were not audited, {len(audited)} were"]
    return 0, [f"audit: {len(audited)} packages, no known vulnerability"]


def main(arguments: list[str]) -> int:
    program, folder = arguments
    options = ["--format", "json", "--progress-spinner", "off", "--skip-editable", "--path", folder]
    code, lines = audit([program, *options])
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
