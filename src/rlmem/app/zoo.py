"""RL Zoo entries: which there are."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from rlmem.core.target import ZOO
from rlmem.documents.serve_tables import ZooDocument
from rlmem.errors import UsageError
from rlmem.runner.child import run_child
from rlmem.sources.config import parse_yaml, read_text

_FIND = "import importlib.util as u; s = u.find_spec('rl_zoo3'); print(s.submodule_search_locations[0] if s else '')"
_ALL = "default"


def list_zoo(python: str | None = None) -> ZooDocument:
    """Return every entry of the rl_zoo3 that is installed; none where it is not.

    ``python`` is the interpreter that has it; by default the one that runs.
    """
    folder = _folder(python)
    if folder is None:
        return ZooDocument(entries=())
    entries: list[str] = []
    for path in sorted((folder / "hyperparams").glob("*.yml")):
        try:
            data, _ = parse_yaml(read_text(path), path.name)
        except UsageError:
            continue
        names = data if isinstance(data, dict) else {}
        entries += [
            f"{ZOO}{path.stem}/{name}" for name in names if isinstance(name, str) and name not in (_ALL, "atari")
        ]
    return ZooDocument(entries=tuple(entries))


def _folder(python: str | None) -> Path | None:
    if python is None:
        spec = importlib.util.find_spec("rl_zoo3")
        places = list(spec.submodule_search_locations or ()) if spec else []
        return Path(places[0]) if places else None
    outcome = run_child([python, "-c", _FIND], cwd=Path.cwd(), env=dict(os.environ), time_limit_s=30)
    text = outcome.stdout.strip() if outcome.status == "ok" else ""
    return Path(text) if text else None
