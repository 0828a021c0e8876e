"""``rlmem fit`` and ``rlmem max-buffer``, called in this process: output, errors, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from rlmem.cli import run
from rlmem.documents.contract import schema_of
from rlmem.documents.fit import FitDocument

LIMITS = ("--vram", "80GB", "--ram")


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize(
    ("name", "ram", "code", "status", "steps"),
    [
        ("pidog-sac", "30GB", 0, "already", []),
        ("pidog-sac", "12GB", 0, "fits", ["compact-store"]),
        ("drone-swarm", "8GB", 0, "fits", ["micro-batches"]),
        ("crypto-ppo", "500MB", 0, "expected", ["batch-size"]),
        ("crypto-ppo", "300MB", 1, "no", ["preallocated-rollout", "batch-size"]),
    ],
)
def test_the_document_keeps_its_contract(
    capsys: pytest.CaptureFixture[str], name: str, ram: str, code: int, status: str, steps: list[str]
) -> None:
    found, out, err = call(capsys, "fit", name, *LIMITS, ram, "--json")
    document = json.loads(out)
    jsonschema.validate(document, schema_of(FitDocument))
    assert (found, err, document["status"]) == (code, "", status)
    assert [step["name"] for step in document["steps"]] == steps


def test_the_fields_it_prints_make_a_plan_that_fits(capsys: pytest.CaptureFixture[str]) -> None:
    """What is written into the command line of 'rlmem plan' gives the very peak that was promised."""
    document = json.loads(call(capsys, "fit", "pidog-td3", *LIMITS, "4GB", "--json")[1])
    sets = [word for path, value in document["changes"].items() for word in ("--set", f"{path}={value}")]
    code, out, _ = call(capsys, "plan", "pidog-td3", *LIMITS, "4GB", *sets, "--json")
    top = next(peak for peak in json.loads(out)["peaks"] if peak["is_peak"])
    promised = document["after"]["peaks"][0]
    assert code == 0
    assert (top["expected_bytes"], top["high_bytes"]) == (promised["expected_bytes"], promised["high_bytes"])


def test_the_text_says_what_is_saved_and_what_it_costs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "fit", "pidog-sac", "--ram", "8GB")
    assert code == 0
    assert out.startswith("fits with 2 steps (lossless)\nnow: RAM peaks at 17.6 GB")
    assert "measured: samples 1.85 to 2.28 times as fast" in out
    assert "buffer_size 400,000 → 170,000" in out  # by itself
    assert out.endswith("storage: compact\nspill_budget: 7113539584\n")
    assert "\x1b[" not in out


def test_markdown_holds_the_fields_in_a_block(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, err = call(capsys, "fit", "pyboy-ppo", "--ram", "8GB", "--vram", "16GB", "-o", str(tmp_path / "fit.md"))
    assert (code, out) == (0, "")
    text = (tmp_path / "fit.md").read_text(encoding="utf-8")
    assert "```yaml\nstorage: compact\n```" in text
    assert "wrote" in err


def test_nothing_that_helps_is_allowed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "fit", "pidog-sac", "--ram", "8GB", "--lossless", "--keep", "storage, spill_budget")
    assert code == 1
    assert out.startswith("does not fit, and no step that is allowed helps: it needs 9.69 GB RAM more than there is")
    assert "as it is: macbook-m2-24gb" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit"], "Missing argument 'TARGET'"),
        (["fit", "pidog-sak"], "did you mean 'pidog-sac'"),
        (
            ["fit", "pidog-sac", "--keep", "buffer_sise"],
            "--keep: buffer_sise: unknown key (did you mean 'buffer_size'?)",
        ),
        (["fit", "pidog-sac", "--max-slowdown", "0.5"], "0.5 is not in the range x>=1"),
        (["fit", "pidog-sac", "--apply"], "pidog-sac: --apply: only for targets that are run"),
        (["fit", "pidog-sac", "--timeout", "9"], "--timeout: only for targets that are run"),
        (["fit", "pidog-sac", "--", "--seed", "1"], "script arguments: only for targets that are run"),
        (["fit", "no.py"], "no.py: no such file"),
        (["fit", "pidog-sac", "--json", "--format", "markdown"], "contradict each other"),
        (["max-buffer", "Pendulum-v1"], "--algo is missing"),
        (["max-buffer", "train.py"], "'rlmem capacity train.py --vary buffer_size' reads its own"),
        (["max-buffer", "Pendulum-v1", "--algo", "sac", "--margin", "lots"], "--margin 'lots' is not a share"),
        (["max-buffer", "Pendulum-v1", "--algo", "sac", "--margin", "120%"], "below 100%"),
        (["max-buffer", "Pendulum-v1", "--algo", "sac", "--python", "no-such"], "no such interpreter"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_two(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


SPACES = '{"observation": {"type": "box", "shape": [84, 84, 3], "dtype": "uint8"}, "action": {"type": "box", "shape": [2]}, "n_envs": 1}'


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An interpreter that has the environment, as far as anybody can tell."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\necho loading\necho '{SPACES}'\n")
    path.chmod(0o755)
    return str(path)


def test_the_largest_buffer_is_printed_with_its_margin(capsys: pytest.CaptureFixture[str], python: str) -> None:
    code, out, err = call(capsys, "max-buffer", "Robot-v0", "--algo", "sac", "--ram", "16GB", "--python", python)
    assert (code, err) == (0, "")
    assert out.startswith("buffer_size = ")
    assert "16.0 GB less a margin of 10%" in out
    assert "with CompactReplayBuffer of rlmem.sb3" in out


def test_a_larger_margin_and_more_settings_leave_less(capsys: pytest.CaptureFixture[str], python: str) -> None:
    base = ("max-buffer", "Robot-v0", "--algo", "sac", "--ram", "16GB", "--python", python, "--json")
    first = json.loads(call(capsys, *base)[1])
    second = json.loads(call(capsys, *base, "--margin", "50%", "--set", "batch_size=4096", "--n-envs", "2")[1])
    assert first["limit_bytes"] == 14_400_000_000
    assert second["limit_bytes"] == 8_000_000_000
    assert second["n_envs"] == 2
    assert second["buffer_size"] < 0.6 * first["buffer_size"] < first["compact_buffer_size"]
