"""`armada hosts provision`: the environment of a host's profile, built before the first launch needs it."""

from __future__ import annotations

import argparse
import sys

from armada.cli.printing import print_json
from armada.errors import UsageError
from armada.units import span


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    provision = verbs.add_parser(
        "provision",
        help="Build the host's Python environment now",
        description="Build the Python environment of the host's profile on the host, unless it exists. A "
        "launch does the same.",
    )
    provision.add_argument("name", help="Name of the host, as in hosts.yaml")
    provision.add_argument("--profile", metavar="NAME", help="Use this profile instead of the host's own")
    provision.add_argument("--json", action="store_true", help="Print a JSON object")
    provision.set_defaults(handler=_provision)


def _provision(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.cli.progress import Reporter
    from armada.config.profiles import choose_profile, load_profile
    from armada.operations import operation
    from armada.provision.environment import ensure_environment, plan_environment
    from armada.provision.turn import turn
    from armada.store import hosts as records

    context = Context()
    host, database = context.host(options.name), context.database
    named = options.profile or host.profile
    if named is None and host.batch is not None:
        raise UsageError(
            f"which GPUs {host.scheduler} hands out cannot be seen from its login node",
            hint="--profile NAME, or `profile:` in hosts.yaml",
        )
    profile = load_profile(named, context.home) if named else None  # a wrong one is said before the host is asked
    reporter = Reporter(sys.stderr if options.json else sys.stdout)
    with (
        operation(database, kind="provision", host=host.name, argv=sys.argv) as progress,
        context.session(host.name) as session,
    ):
        context.admit(host)
        listener = progress.tells(reporter)
        listener.now("plan", f"asking {host.name}")
        facts = session.call("host.facts", {})
        origin = str(host.origin) if host.origin else None
        records.record_facts(database, host.name, facts, origin=origin)
        profile = profile or load_profile(choose_profile(facts, context.home), context.home)
        environment = plan_environment(session, profile, facts)
        records.mark_released(database, host.name, None)
        listener.stage("profile", f"{profile.name}, environment {environment.key}")
        doing = f"provisioning of {host.name}"
        with turn(context.home.lock(f"host-{host.name}"), doing, lambda who: listener.stage("waiting", who)):
            built, seconds, left_out = ensure_environment(
                session, environment, lambda text: listener.now("provision", text)
            )
        for note in left_out:
            listener.stage("", f"⚠ {note}")
        records.record_facts(database, host.name, session.call("host.facts", {}), origin=origin)
        said = f"built in {span(seconds)}" if built else "was there already"
        listener.stage("ready", f"environment {environment.key} {said}")
    if options.json:
        answer = {"host": host.name, "profile": profile.name, "environment": environment.key}
        print_json({**answer, "outcome": "built" if built else "ready", "seconds": seconds})
    return 0
