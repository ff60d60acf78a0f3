"""`armada hosts provision`: build the environment of a host's profile before the first launch needs it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from armada.cli.options import add_host_name, add_profile
from armada.cli.printing import print_json


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    provision = verbs.add_parser(
        "provision",
        help="Build the host's Python environment now",
        description="Build the Python environment of the host's profile on the host, unless it exists. A "
        "launch does the same.",
    )
    add_host_name(provision)
    add_profile(provision)
    provision.add_argument("--json", action="store_true", help="Print a JSON object")
    provision.set_defaults(handler=_provision)


def _provision(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.provision.service import named_profile, provision_host

    context = Context()
    host = context.host(options.name)
    profile = named_profile(host, options.profile, context.home)  # a wrong one is said before the host is asked
    made = provision_host(
        context.database,
        context.home,
        host,
        profile,
        context.session,
        argv=sys.argv,
        project=Path.cwd(),
        progress=Reporter(sys.stderr if options.json else sys.stdout),
    )
    if options.json:
        answer = {"host": host.name, "profile": made.profile, "environment": made.environment}
        print_json({**answer, "outcome": "built" if made.built else "ready", "seconds": made.seconds})
    return 0
