"""`armada profiles ls | show | validate | detect`: what profiles there are, and which one a host's GPUs get."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from armada.cli.options import add_host_name
from armada.cli.printing import error_fields, print_json
from armada.errors import ArmadaError, Conflict, UsageError
from armada.foundation.sanitize import sanitize_line, sanitize_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from armada.config.profile_choice import Choice
    from armada.config.profiles import Profile
    from armada.paths import HomePaths
    from armada.protocol.facts import Facts, GpuKind


def register(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "profiles",
        help="List, show and check GPU profiles, or find the one for a host",
        description="A profile says how to train on a kind of machine. List and show the bundled ones and your own, "
        "check files, and find out which one fits a host's GPUs.",
    )
    verbs = parser.add_subparsers(title="commands", metavar="VERB", dest="verb", required=True)

    ls = verbs.add_parser("ls", help="List profiles", description="List your own and the bundled profiles.")
    ls.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    ls.set_defaults(handler=_ls)

    show = verbs.add_parser(
        "show",
        help="Show every key of a profile",
        description="Show every key of a profile with what it extends, and the file and line of each.",
    )
    show.add_argument("profile", metavar="NAME", help="Name of the profile")
    show.add_argument("--json", action="store_true", help="Print a JSON object")
    show.set_defaults(handler=_show)

    validate = verbs.add_parser(
        "validate",
        help="Check profiles for errors",
        description="Check profiles, and print each error with file and line. Exit code 2 if one is wrong.",
    )
    validate.add_argument(
        "profiles", nargs="*", metavar="NAME", help="Name of a profile, or a YAML file (default: all profiles)"
    )
    validate.add_argument("--json", action="store_true", help="Print a JSON list of objects")
    validate.set_defaults(handler=_validate)

    detect = verbs.add_parser(
        "detect",
        help="Find the profile for a host's GPUs",
        description="Ask a host for its GPUs, and say which profile fits and why the others do not. If none fits, print "
        "the one that armada derives from the GPUs, as YAML.",
    )
    add_host_name(detect)
    detect.add_argument("--save", metavar="NAME", help="Write it as a profile of your own, which you can change")
    detect.add_argument("--json", action="store_true", help="Print a JSON object")
    detect.set_defaults(handler=_detect)


def _ls(options: argparse.Namespace) -> int:
    from armada.cli.table import table
    from armada.config.profiles import list_profiles, load_profile
    from armada.paths import HomePaths

    home = HomePaths.from_environment()
    loaded: dict[str, Profile] = {}
    wrong: dict[str, ArmadaError] = {}
    for name in list_profiles(home):
        try:
            loaded[name] = load_profile(name, home)
        except ArmadaError as error:
            wrong[name] = error
    if options.json:
        listed = {name: _summary(profile) for name, profile in loaded.items()}
        listed |= {
            name: {"name": name, "from": "user", "error": sanitize_text(str(why))} for name, why in wrong.items()
        }
        print_json([listed[name] for name in sorted(listed)])
        return 0
    rows = [_row(profile) for profile in loaded.values()]
    print(table(("NAME", "GPUS", "MODEL", "MEMORY", "PEAK", "PRECISION", "FROM"), rows))
    for name, trouble in wrong.items():
        print(f"✗ {sanitize_line(name, 80)} cannot be used: {sanitize_text(str(trouble))}")
        if trouble.hint:
            print(f"    → {sanitize_line(trouble.hint)}")
    return 0


def _from(profile: Profile) -> str:
    return "user" if profile.is_own else "bundled"


def _row(profile: Profile) -> tuple[str, ...]:
    gpus = profile.gpus
    return (
        sanitize_line(profile.name, 80),
        gpus.span if gpus.count else "none",
        sanitize_line(gpus.model or "", 60),
        f"{gpus.memory_gb:g} GB" if gpus.memory_gb is not None else "",
        f"{gpus.peak_tflops:g} TFLOPS" if gpus.peak_tflops is not None else "",
        profile.train.precision,
        _from(profile),
    )


def _summary(profile: Profile) -> dict[str, object]:
    gpus = profile.gpus
    return {
        "name": profile.name,
        "from": _from(profile),
        "file": str(profile.origin),
        "description": profile.description,
        "gpus": {"least": gpus.fewest, "most": gpus.count, "model": gpus.model, "memory_gb": gpus.memory_gb},
        "peak_tflops": gpus.peak_tflops,
        "precision": profile.train.precision,
    }


def _show(options: argparse.Namespace) -> int:
    from armada.config.documents import shown
    from armada.config.origins import trace
    from armada.config.profiles import load_profile
    from armada.config.resolution import plain
    from armada.paths import HomePaths

    profile = load_profile(options.profile, HomePaths.from_environment())
    values = [value for value in trace(profile, profile.places) if value.key != "name"]
    if options.json:
        keys = {value.key: {"value": plain(value.value), "origin": value.origin} for value in values}
        print_json({"name": profile.name, "from": _from(profile), "file": str(profile.origin), "keys": keys})
        return 0
    print(f"{profile.name}, {_from(profile)}: {sanitize_line(profile.origin)}")
    key_width = max(len(sanitize_line(value.key, 100)) for value in values)
    texts = [sanitize_line(shown(plain(value.value), 200), 200) for value in values]
    width = min(60, max(map(len, texts)))
    for value, text in zip(values, texts, strict=True):
        print(f"  {sanitize_line(value.key, 100):<{key_width}}  {text:<{width}}  {sanitize_line(value.origin, 400)}")
    return 0


def _validate(options: argparse.Namespace) -> int:
    from armada.config.profiles import list_profiles
    from armada.paths import HomePaths

    home = HomePaths.from_environment()
    code = 0
    listed: list[dict[str, object]] = []
    for word in options.profiles or list_profiles(home):
        try:
            profile = _checked(word, home)
        except ArmadaError as error:
            code = max(code, error.exit_code)
            listed.append({"name": word, "valid": False, "error": error_fields(error)})
            if not options.json:
                print(f"✗ {sanitize_text(str(error), 8000)}")
                if error.hint:
                    print(f"    → {sanitize_line(error.hint, 2000)}")
            continue
        listed.append({"name": word, "valid": True, "file": str(profile.origin)})
        if not options.json:
            print(f"✓ {sanitize_line(word, 200)} ({sanitize_line(profile.origin)})")
    if options.json:
        print_json(listed)
    return code


def _checked(word: str, home: HomePaths) -> Profile:
    """Load a profile by its name, or from a file, and read its lists of packages.

    Raises:
        ArmadaError: It is wrong, or not there.
    """
    from armada.config.profiles import load_profile, load_profile_file
    from armada.provision.environment_key import requirements_text

    is_file = "/" in word or word.endswith((".yaml", ".yml"))
    profile = load_profile_file(Path(word), home) if is_file else load_profile(word, home)
    requirements_text(profile)  # two of its lists may pin one package differently
    return profile


def _detect(options: argparse.Namespace) -> int:
    from armada.cli.context import Context
    from armada.config.profile_choice import choose_profile
    from armada.protocol.facts import AskFacts
    from armada.store import hosts as records

    context = Context()
    host = context.host(options.name)
    if host.batch is not None:
        raise UsageError(
            f"the login node of {host.name} does not show which GPUs {host.scheduler} assigns",
            hint=f"armada profiles ls lists profiles; armada hosts set {host.name} --profile NAME sets one",
        )
    if options.save is not None:
        _require_free(options.save, context.home)
    with context.session(host.name) as session:
        facts = session.call(AskFacts())
    records.record_facts(context.database, host.name, facts.as_json())
    choice = choose_profile(facts.hardware.gpus, context.home)
    saved = _save(options.save, host.name, choice.profile, context.home) if options.save is not None else None
    if options.json:
        print_json(_told(host.name, host.profile, facts, choice, saved))
        return 0
    _say_choice(host.name, host.profile, facts, choice)
    if saved is not None:
        uses = choose_profile(facts.hardware.gpus, context.home).profile.name == options.save and host.profile is None
        next_step = (
            "runs there use it from now on"
            if uses
            else f"armada hosts set {host.name} --profile {options.save} uses it"
        )
        print(f"\nsaved as {saved}: {next_step}")
    return 0


def _told(host: str, configured: str | None, facts: Facts, choice: Choice, saved: Path | None) -> dict[str, object]:
    from armada.launch.checks.gpus import unused_gpus

    profile = choice.profile
    unused = unused_gpus(facts)
    return {
        "host": host,
        "configured": configured,
        "gpus": [
            {
                "name": gpu.name,
                "memory_bytes": gpu.memory_bytes,
                "compute_capability": gpu.compute_capability,
                "slices": list(gpu.slices),
            }
            for gpu in facts.hardware.gpus
        ],
        "profile": profile.name,
        "derived": profile.derived is not None,
        "yaml": profile.derived,
        "notes": [*([unused] if unused else []), *profile.notes],
        "others": [{"name": other.name, "why": other.why} for other in choice.others],
        "saved": str(saved) if saved is not None else None,
    }


def _say_choice(host: str, configured: str | None, facts: Facts, choice: Choice) -> None:
    from armada.launch.checks.gpus import unused_gpus

    profile = choice.profile
    print(f"{host}: {_shown_gpus(facts.hardware.gpus)}")
    if unused := unused_gpus(facts):
        print(f"  ⚠ {unused}")
    if profile.derived is None:
        print(f"✓ profile {profile.name} fits: {sanitize_line(profile.description)}")
    else:
        print("✗ no profile fits its GPUs")
    width = max((len(other.name) for other in choice.others), default=0)
    for other in choice.others:
        print(f"    {sanitize_line(other.name, 80):<{width}}  {sanitize_line(other.why)}")
    if configured is not None and configured != profile.name:
        print(f"  ⚠ hosts.yaml names profile {configured} for it, which counts")
    if profile.derived is None:
        return
    print(f"\nderived from its GPUs: {profile.name}")
    for note in profile.notes:
        print(f"  ⚠ {sanitize_line(note)}")
    print(f"\n{sanitize_text(profile.derived)}", end="")


def _shown_gpus(gpus: Sequence[GpuKind]) -> str:
    from armada.config.profile_choice import describe
    from armada.units import memory_amount

    if not gpus:
        return "no NVIDIA GPUs"
    memory = {memory_amount(gpu.memory_bytes) if gpu.memory_bytes is not None else "unknown memory" for gpu in gpus}
    capability = {sanitize_line(gpu.compute_capability or "unknown", 20) for gpu in gpus}
    return sanitize_line(
        f"{describe(gpus)}, {' and '.join(sorted(memory))}, compute capability {' and '.join(sorted(capability))}"
    )


def _require_free(name: str, home: HomePaths) -> None:
    """Refuse a name that a new profile cannot have.

    Raises:
        UsageError: It is no name.
        Conflict: There is such a profile.
    """
    from armada.config.profiles import NAME, list_profiles

    if not NAME.fullmatch(name):
        raise UsageError(
            f"{sanitize_line(name, 80)!r} cannot be the name of a profile",
            hint="letters, digits, `-`, `_` and `.`, and a letter or digit first, such as --save my-gpus",
        )
    if name in list_profiles(home):
        raise Conflict(f"there is a profile {name} already", hint="choose another name")


def _save(name: str, host: str, profile: Profile, home: HomePaths) -> Path:
    """Write a profile of the user's own.

    Raises:
        UsageError: The host does not say all that a file must say.
        Conflict: Another command has just written one of that name.
    """
    from armada.foundation.atomic_write import replacing

    path = home.profiles / f"{name}.yaml"
    if profile.derived is None:
        text = f"# Made by armada: what is the same as in {profile.name} need not be repeated here.\n"
        # Quoted: a profile may be called `1.5` or `null`.
        text += f"description: {json.dumps(f'As {profile.name}, for {host}')}\nextends: {json.dumps(profile.name)}\n"
    elif profile.gpus.count and profile.gpus.memory_gb is None:
        raise UsageError(
            f"{host} does not say how much memory its GPUs have, which a profile must say",
            hint=f"armada profiles detect {host} > {path}, then edit it: the YAML needs `gpus.memory_gb`",
        )
    else:
        text = profile.derived
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path, durable=True, keep_first=True) as temporary:
        temporary.write_text(text, encoding="utf-8")
    if path.read_text(encoding="utf-8") != text:
        raise Conflict(f"there is a profile {name} already: {path}", hint="choose another name")
    return path
