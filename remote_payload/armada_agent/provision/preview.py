"""Let the trainer of an environment say what a model will see of some rows. Nothing is kept, and no GPU is used."""

import json
import os
from typing import Any, Dict, List

from armada_agent.errors import AgentError
from armada_agent.foundation import parameters
from armada_agent.foundation.session import Call
from armada_agent.host import trust
from armada_agent.provision import content, environment, hub_listing

_MARK = "@@ "
_LONGEST_ANSWER = 7 * 1000 * 1000
_SHOWN_LINES = 5
_DROPPED = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP")


def show(call: Call, params: Dict[str, Any]) -> Dict[str, Any]:
    """Tokenise rows with an environment's own libraries.

    Raises:
        AgentError: `not_found`: the trainer is not here; `environment`: there is no such environment, or it failed.
    """
    python = environment.find_python(call.root, params.get("environment"))
    code = content.places(call.root, {"kind": "code", "sha": params.get("payload")})[0]
    if not os.path.isdir(code):
        raise AgentError("not_found", "the trainer is not on this host yet", "`armada prepare` puts it there")
    trust.require_tree(code, call.root)
    variables = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    if parameters.texts(params, "variables").get("HF_HUB_OFFLINE"):
        variables["HF_HUB_OFFLINE"] = "1"
    variables.update(
        hub_listing.variables(params),
        PYTHONPATH=code,
        PYTHONSAFEPATH="1",
        PYTHONNOUSERSITE="1",
        PYTHONPYCACHEPREFIX=os.path.join(call.root, "tools", "pycache"),
        HF_HUB_DISABLE_TELEMETRY="1",
        CUDA_VISIBLE_DEVICES="",
    )
    answers: List[str] = []
    said: List[str] = []

    def take(line: str) -> None:
        if line.startswith(_MARK):
            answers.append(line[len(_MARK) :])
        elif line.strip():
            said.append(line[:300])
            del said[:-_SHOWN_LINES]

    asked = json.dumps(parameters.mapping(params, "rows")).encode("utf-8")
    exit_code = call.session.children.run([python, "-m", "armada_train.show"], variables, take, stdin=asked)
    if exit_code or len(answers) != 1 or len(answers[0]) > _LONGEST_ANSWER:
        words = "\n".join(said) or "it printed nothing"
        raise AgentError("environment", "tokenising rows failed with exit code %d:\n%s" % (exit_code, words))
    answer = json.loads(answers[0])
    if not isinstance(answer, dict):
        raise AgentError("environment", "the trainer gave no answer that can be read")
    return answer
