"""docs/examples/window_ppo.py: a PPO of one's own on WindowRollout learns, and its store holds what whole windows would."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")

pytestmark = pytest.mark.truth

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "examples" / "window_ppo.py"
GUIDE = ROOT / "docs" / "window-rollout.md"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module; what it sets for torch is set back."""
    spec = importlib.util.spec_from_file_location("window_ppo", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(torch, "set_num_threads", lambda count: None)
    return module


@pytest.mark.long
def test_it_learns_and_every_rollout_is_that_of_whole_windows(
    example: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(example, "ITERATIONS", 12)
    example.main()
    text = capsys.readouterr().out
    first, last = map(float, re.findall(r"rollout ([\d.]+), of the last five ([\d.]+)", text)[0])
    assert last > first + 0.2
    stored, whole = (
        int(number.replace(",", "")) for number in re.findall(r"([\d,]+) bytes stored.*take ([\d,]+)", text)[0]
    )
    assert stored < whole / 4
    # What the guide says of sizes does not depend on how long it ran.
    assert f"{stored:,} bytes stored; whole windows would take {whole:,}" in GUIDE.read_text(encoding="utf-8")


@pytest.mark.parametrize("wrong", ["zeros", "carry"])
def test_its_check_would_notice_another_rule_at_resets(
    example: Any, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    plain = example.WindowRollout
    monkeypatch.setattr(example, "WindowRollout", lambda *a, **k: plain(*a, **{**k, "on_reset": wrong}))
    monkeypatch.setattr(example, "ITERATIONS", 1)
    with pytest.raises(AssertionError, match="whole windows"):
        example.main()


def test_the_code_of_the_guide_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)
    assert len(blocks) == 3
    names: dict[str, Any] = {"torch": torch, "targets": torch.zeros(4096, 4), "epochs": 1, "size": 40_960}
    seen = []

    def act(observation: Any) -> tuple[Any, ...]:
        seen.append(observation)
        return torch.zeros(4096, 4), torch.zeros(4096), torch.zeros(4096)

    class Env:
        def step(self, actions: Any) -> tuple[Any, ...]:
            ended = torch.arange(4096) % 100 == len(seen)
            return torch.randn(4096, 10, 6), torch.ones(4096), ended, torch.ones(4096, 4)

    exec(blocks[0].replace("100,", "9,"), names)  # as short as it can be
    names |= {"env": Env(), "act": act, "agents": torch.tensor([7, 100]), "steps": torch.tensor([8, 3])}
    exec(blocks[1].replace("100", "9"), names)
    assert torch.equal(names["batch"], torch.stack([seen[8][7], seen[3][100]]))
    assert names["after"].shape == (4096, 1804)
    names |= {"agents": 1024, "steps": 9, "size": 2048}
    exec(blocks[2], names)
    assert names["batch"].shape == (256, 9, 1804)
