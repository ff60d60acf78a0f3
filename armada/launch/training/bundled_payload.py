"""Run the bundled payload's own checks at home, so that errors are found before a host is contacted.

The checks are those payload modules that need only the standard library. They are loaded from the files that are sent,
so that both sides run the same code. The two packages do not import each other: home loads the modules by name.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from typing import TYPE_CHECKING, Any

from armada.paths import bundled

if TYPE_CHECKING:
    from types import ModuleType

_PACKAGE = "armada_train"
_WITHOUT_TORCH = frozenset(
    {
        "data.readers",
        "data.rows",
        "failure",
        "model.files",
        "specification.forms",
        "specification.objectives",
        "specification.parser",
        "specification.section",
        "specification.values",
        "training.libraries",
    }
)


def payload_module(name: str) -> Any:
    """Load one of the payload's modules.

    Args:
        name: A module that imports neither torch nor anything else that is missing at home.
    """
    if name not in _WITHOUT_TORCH:
        message = f"{name} is not known to run at home"
        raise ValueError(message)
    if _PACKAGE not in sys.modules:
        _load_package()
    return importlib.import_module(f"{_PACKAGE}.{name}")


def _load_package() -> ModuleType:
    """Load the package from its own folder, whatever else of that name is on the path."""
    folder = bundled("remote_payload", _PACKAGE)
    spec = importlib.util.spec_from_file_location(
        _PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018  # it is a Python file
    module = importlib.util.module_from_spec(spec)
    sys.modules[_PACKAGE] = module
    spec.loader.exec_module(module)
    return module
