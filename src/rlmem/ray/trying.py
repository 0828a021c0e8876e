"""A trial planned by trying it: its own trainable with its own sampled configuration, for a few real updates.

The trainable goes the way Ray would send it to a worker, but into a dry run (:mod:`rlmem.trace.dryrun`): a capped process of its own on
the machine that runs the experiment, without a connection to Ray, in which big arrays are held back and files are put back. An
algorithm of RLlib is described instead (:mod:`rlmem.trace.rllib`), which trains nothing.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rlmem.budget import cap_bytes
from rlmem.core.plan import Budget, Plan
from rlmem.core.spec import RunSpec
from rlmem.core.target import RLLIB, Target
from rlmem.errors import AnalysisError
from rlmem.planner import ClosedForm
from rlmem.process.calibration import read_calibration
from rlmem.trace.dryrun import dry_run
from rlmem.trace.plan import plan_dry_run
from rlmem.trace.rllib import describe_config
from rlmem.trace.target import RunnableTarget

#: Of a trial that nobody has another name for.
NAME = "the trial"
#: What the process of a dry run does. Outside of a trial Tune's own functions say nothing and go on.
_TRY = """\
import sys
sys.path += [each for each in {paths!r} if each not in sys.path]
import inspect
from ray import cloudpickle, tune
with open({file!r}, "rb") as file:
    trainable, config = cloudpickle.load(file)
if isinstance(trainable, type):
    trial = trainable(config)
    while not trial.train().get("done"):
        pass
else:
    result = trainable(config)
    if inspect.isgenerator(result):
        for _ in result:
            pass
"""
_CONFIG = """\
import sys
sys.path += [each for each in {paths!r} if each not in sys.path]
from ray import cloudpickle, tune
with open({file!r}, "rb") as file:
    config, environments = cloudpickle.load(file)
for name, creator in environments.items():
    tune.register_env(name, creator)
"""


class Trying:
    """Configuration to plan, by a dry run of the trainable; the same configuration is tried once."""

    def __init__(self, trainable: Any) -> None:
        self._trainable = trainable
        self._known: dict[bytes, Plan | RunSpec] = {}

    def __call__(self, config: Mapping[str, Any]) -> Plan | RunSpec:
        """The plan of a trial, or for an algorithm of RLlib the run to plan."""
        algorithm = _is_algorithm(self._trainable)
        sent: Any = _settings(self._trainable, config) if algorithm else (self._trainable, dict(config))
        data = dumped(sent)
        key = hashlib.sha256(data).digest()
        if key not in self._known:
            self._known[key] = _described(data) if algorithm else _tried(data)
        return self._known[key]

    def __getstate__(self) -> dict[str, Any]:
        """Plans stay where they were made."""
        return {"_trainable": self._trainable, "_known": {}}


def dumped(sent: Any) -> bytes:
    """As Ray sends it; what ``tune.with_parameters`` put into the object store goes along, as there will be none."""
    from ray import cloudpickle
    from ray.tune.registry import _ParameterRegistry

    class Pickler(cloudpickle.CloudPickler):
        def reducer_override(self, obj: Any) -> Any:
            if isinstance(obj, _ParameterRegistry):
                names = {*obj.to_flush, *obj.references}
                return _registry, ({name: obj.get(name) for name in names},)
            return super().reducer_override(obj)

    stream = io.BytesIO()
    try:
        Pickler(stream).dump(sent)
    except Exception as error:
        raise AnalysisError(f"it cannot be sent to a process of its own: {type(error).__name__}: {error}") from None
    return stream.getvalue()


def _registry(values: dict[str, Any]) -> Any:
    """A registry that needs no Ray to answer."""
    from ray.tune.registry import _ParameterRegistry

    made = _ParameterRegistry()
    made.to_flush.update(values)
    return made


def _is_algorithm(trainable: Any) -> bool:
    """Whether it is RLlib's; without RLlib nothing is."""
    if not isinstance(trainable, type) or "ray.rllib" not in sys.modules:
        return False
    from ray.rllib.algorithms.algorithm import Algorithm

    return issubclass(trainable, Algorithm)


def _settings(algorithm: Any, config: Any) -> tuple[Any, dict[str, Any]]:
    """A trial's configuration as RLlib's own noun, and the environment that was registered under the name it has there."""
    from ray.tune.registry import ENV_CREATOR, _global_registry

    made = algorithm.get_default_config().update_from_dict(dict(config)) if isinstance(config, Mapping) else config
    name = made.env
    if isinstance(name, str) and _global_registry.contains(ENV_CREATOR, name):
        return made, {name: _global_registry.get(ENV_CREATOR, name)}
    return made, {}


def _tried(data: bytes) -> Plan:
    with _laid_out(data, _TRY) as script:
        target = RunnableTarget(
            kind="script",
            text=str(script),
            python=sys.executable,
            python_source="the experiment's own",
            folder=Path.cwd(),
        )
        run = dry_run(target, cap_bytes=cap_bytes(None))
        return plan_dry_run(run, Budget(name="trial"), ClosedForm(read_calibration())).plan


def _described(data: bytes) -> RunSpec:
    with _laid_out(data, _CONFIG) as script:
        target = Target(kind="rllib", text=f"{RLLIB}{script}:config", python=sys.executable)
        try:
            found = describe_config(target)[0]
        except AnalysisError as error:
            raise AnalysisError(str(error).removeprefix(f"{target.text}: ")) from None
        return found.having({"name": NAME}, "a trial of Tune")


@contextmanager
def _laid_out(data: bytes, program: str) -> Iterator[Path]:
    """A program and what it loads, in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="rlmem-trial-", ignore_cleanup_errors=True) as folder:
        file, script = Path(folder, "trial.pickle"), Path(folder, "trial.py")
        file.write_bytes(data)
        paths = [os.path.abspath(each) for each in sys.path]
        script.write_text(program.format(paths=paths, file=str(file)), encoding="utf-8")
        yield script
