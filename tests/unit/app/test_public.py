"""Public names are what they say, however the package was imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

import rlmem


@pytest.mark.parametrize("name", ["plan", "explain", "fit", "measure", "max_buffer_size"])
def test_a_public_function_is_not_hidden_by_a_module_of_its_name(name: str) -> None:
    imports = "import rlmem, rlmem.cli, rlmem.app.plan, rlmem.app.measure, rlmem.core.plan, rlmem.report.plan"
    subprocess.run([sys.executable, "-c", f"{imports}; assert callable(rlmem.{name}), rlmem.{name}"], check=True)


def test_a_run_is_planned_by_a_request() -> None:
    request = rlmem.PlanRequest(target=rlmem.parse_target("pidog-sac"), budget=rlmem.make_budget(ram="4GB"))
    document = rlmem.plan(request)
    assert document.verdict == "does-not-fit"
    assert rlmem.to_plain(document)["schema"] == "rlmem.plan/1"
    assert document.findings


def test_a_request_without_a_budget_takes_what_this_process_may_use() -> None:
    target, here = rlmem.parse_target("pidog-sac"), rlmem.make_budget()
    document = rlmem.plan(rlmem.PlanRequest(target=target))
    assert (document.machine.name, document.machine.ram_bytes) == (here.name, here.ram_bytes)
    assert document.verdict != "unknown"
    assert rlmem.fit(rlmem.FitRequest(target=target)).status != "unknown"
