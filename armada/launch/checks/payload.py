"""Run the payload's own checks of settings, model and environment at home."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from armada.foundation.sanitize import sanitize_line
from armada.launch.checks.check import Answer, fail, ok, warn
from armada.launch.training.bundled_payload import payload_module
from armada.provision.environment_key import has_package

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from armada.launch.checks.subject import Subject
    from armada.provision.environment import Environment

_KEY = re.compile(r"`([a-z_]+(?:\.[a-z_]+)*)")
"""A key of an experiment file in a message, perhaps with its value behind it."""
_PINNED = re.compile(r"[A-Za-z0-9][\w.\[\],-]*\s*[=<>!~].*|[A-Za-z0-9][\w.\[\],-]*")


def check_payload(subject: Subject) -> Answer | None:
    """Report what the payload's own checks would find on the host."""
    trained = subject.trained
    if trained is None:
        return None
    section, environment = trained.section.as_json(), trained.environment
    answer = ask_payload(section, environment, model=trained.model, kind=trained.kind, tools=trained.tools)
    if answer.outcome != "ok":
        return _placed(answer, subject.experiment.places)
    if not trained.looks:
        return answer
    return ok(f"{answer.message}; rows look like {' and '.join(trained.looks)}")


def ask_payload(
    section: Mapping[str, object],
    environment: Environment | None,
    *,
    model: Path | None = None,
    kind: str | None = None,
    tools: tuple[bool, bool] = (False, False),
) -> Answer:
    """Run the payload's checks of settings, model and environment at home.

    Args:
        section: spec["training"], as JSON.
        environment: The environment of the run; None if an image brings its own, which is asked when it is there.
        model: The model's folder at home; None if only the host can read it.
        kind: The kind of the data's rows; None if only the host can read them.
        tools: Whether rows are known to offer tools, and to call some.
    """
    failures = payload_module("failure")
    try:
        parsed = payload_module("specification.section").Section(section, "training")
        training = payload_module("specification.parser").parse_training(parsed)
        here = dataclasses.replace(training, model=str(model)) if model is not None else training
        is_here = _is_here(training, model)
        findings = payload_module("model.files").check_model(here, kind, tools) if is_here else []
    except failures.PayloadFailure as failure:
        return fail(_sentence(failure.message), "the run would fail with this on the host")
    if environment is not None and (lacking := _lacking(training, environment)):
        hint = f"add {' and '.join(lacking)} to `environment.packages` of your own profile, or change the setting that needs it"
        named = ", ".join(f"{name} (for `{key}`)" for name, key in lacking.items())
        return fail(f"the profile's environment lacks {named}", hint)
    if findings:
        return warn(_sentence("; ".join(findings)), "the run would start and print this warning")
    return ok("the payload takes these settings" + (" and this model" if model is not None else ""))


def _placed(answer: Answer, places: Mapping[str, str]) -> Answer:
    """Put the line of the first key that an answer names in front of it; a value of a profile has none."""
    lines = [places[key] for key in _KEY.findall(answer.message) if key in places]
    return dataclasses.replace(answer, message=f"{lines[0]}: {answer.message}") if lines else answer


def _is_here(training: Any, model: Path | None) -> bool:
    """Whether the model can be checked: its folder is at home, or it is a tiny one."""
    return model is not None or not isinstance(training.model, str)


def _lacking(training: Any, environment: Environment) -> dict[str, str]:
    """Return packages that the payload will import but that the environment's lists do not name, and why it does."""
    needed = payload_module("training.libraries").needed_packages(training)
    return {name.replace("_", "-"): key for name, key in needed.items() if lacks_package(environment, name)}


def lacks_package(environment: Environment, name: str) -> bool:
    """Return whether an environment's lists do not name a package; files and URLs in them may install any."""
    lines = environment.requirements.splitlines()
    if not all(_PINNED.fullmatch(line.partition(";")[0].strip()) for line in lines):
        return False
    named = environment.requirements + (environment.optional or "")
    return not any(has_package(named, spelling) for spelling in _spellings(name))


def _spellings(package: str) -> set[str]:
    return {package, package.replace("_", "-")}


def _sentence(message: str) -> str:
    """Convert the payload's message to the keys of an experiment file."""
    return sanitize_line(message.replace("`training.", "`"), 900)
