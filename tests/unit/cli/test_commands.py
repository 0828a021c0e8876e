"""The command line, called in this process: output, errors, exit codes, files."""

from __future__ import annotations

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlmem.cli import COMMANDS, run
from rlmem.cli.common import write_whole
from rlmem.documents.contract import schema_of
from rlmem.documents.plan import PlanDocument
from rlmem.errors import UsageError
from rlmem.sources.preset import PRESETS
from rlmem.version import __version__

LIMITS = ("--ram", "30GB", "--vram", "16GB")


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    code, out, err = call(capsys, command, "--help")
    assert (code, err) == (0, "")
    assert out.startswith(f"Usage: rlmem {command}")
    assert f"  rlmem {command}" in out.split("Usage:", 1)[1].split("\n", 1)[1]


def test_the_help_lists_every_command_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "--help")
    assert code == 0
    assert all(f"  {name} " in out for name in COMMANDS)
    assert "0 fine, 1 does not fit or will not work as described" in out
    assert call(capsys) == (0, out, "")


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "--version") == (0, f"rlmem, version {__version__}\n", "")


@pytest.mark.parametrize(("ram", "code"), [("30GB", 0), ("4GB", 1)])
def test_a_run_that_does_not_fit_is_exit_code_one(capsys: pytest.CaptureFixture[str], ram: str, code: int) -> None:
    found, out, err = call(capsys, "plan", "pidog-sac", "--ram", ram)
    assert (found, err) == (code, "")
    assert ("does not fit" in out.splitlines()[0]) is bool(code)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["plann"], "no such command 'plann' (did you mean 'plan'?)"),
        (["--frob"], "No such option"),
        (["plan"], "Missing argument 'TARGET'"),
        (["plan", "pidog-sak"], "unknown preset 'pidog-sak' (did you mean 'pidog-sac'?)"),
        (["plan", "pidog-sac", "--ram", "lots"], "--ram 'lots' is not a size"),
        (["plan", "pidog-sac", "--ram", "1e400"], "absurdly large"),
        (["plan", "pidog-sac", "--ram", "30"], "is only 30 B; add a unit, such as --ram 30GB"),
        (["plan", "pidog-sac", "--machine", "rtx-409"], "did you mean 'rtx-4090'"),
        (["plan", "pidog-sac", "--set", "n_env=4"], "--set: n_env: unknown key (did you mean 'n_envs'?)"),
        (["plan", "pidog-sac", "--set", "algorithm=sacc"], "did you mean 'sac'"),
        (["plan", "pidog-sac", "--set", "framework.name=sb4"], "did you mean 'sb3'"),
        (["plan", "pidog-sac", "--set", "network.extractor=[]oops"], "not valid JSON"),
        (["plan", "pidog-sac", "--why", "replay.observation"], "did you mean 'replay.observations"),
        (["plan", "pidog-sac", "--json", "--format", "markdown"], "contradict each other"),
        (["plan", "pidog-sac", "--format", "pdf"], "'pdf' is not one of"),
        (["plan", "pidog-sac", "--python", "no-such-python"], "--python no-such-python: no such interpreter"),
        (["plan", "no/such/run.yaml"], "no such file"),
        (["plan", "train.py"], "train.py: no such file"),
        (["capacity", "pidog-sac"], "Missing option '--vary'"),
        (["capacity", "pidog-sac", "--vary", "device"], "only counts can be varied"),
        (["capacity", "pidog-sac", "--vary", "agents", "--machines", ","], "give sizes or names"),
        (["capacity", "pidog-sac", "--vary", "agents", "--machines", "8GB", "--ram", "8GB"], "contradict each other"),
        (["compare", "pidog-sac"], "Missing argument 'RIGHT'"),
        (["compare", "pidog-sac", "pidog-sac", "--set-left", "x=1"], "x: unknown key"),
        (["show", "no-such.json"], "no-such.json: no such file"),
        (["presets", "--show", "pidog"], "unknown preset 'pidog' (did you mean 'pidog-"),
        (["machines", "rtx-409"], "did you mean 'rtx-4090'"),
        (["rule", "MEM999"], "unknown rule 'MEM999'"),
        (["schema", "nothing"], "is not one of"),
        (["calibrate", "--python", "no-such-python"], "no such interpreter"),
    ],
)
def test_bad_input_is_one_line_on_standard_error(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("rlmem: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", "[" * 100_000, '{"schema": "rlmem.plan/1"}', "\x00"])
def test_a_file_that_is_no_plan_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    code, out, err = call(capsys, "show", str(path))
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_folder_is_no_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert call(capsys, "show", str(tmp_path)) == (2, "", f"rlmem: {tmp_path}: cannot be read: Is a directory\n")


@pytest.mark.parametrize("name", PRESETS)
def test_json_output_is_the_contract(capsys: pytest.CaptureFixture[str], name: str) -> None:
    _, out, err = call(capsys, "plan", name, *LIMITS, "--json")
    jsonschema.validate(json.loads(out), schema_of(PlanDocument))
    assert err == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ["capacity", "pidog-sac", "--vary", "buffer_size=1k,2k", *LIMITS],
        ["compare", "drone-swarm", "drone-swarm", "--set-right", "history=100", *LIMITS],
        ["plan", "pidog-sac", "--why", "replay", *LIMITS],
        ["presets"],
        ["machines"],
        ["machines", "rtx-4090"],
        ["machines", "--here"],
        ["rule"],
        ["rule", "MEM101"],
    ],
)
def test_every_command_speaks_json_markdown_and_text(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    code, out, _ = call(capsys, *arguments, "--json")
    assert code == 0
    assert json.loads(out, parse_constant=pytest.fail)
    for wanted in ("text", "markdown"):
        code, out, _ = call(capsys, *arguments, "--format", wanted)
        assert code == 0
        assert out.startswith("# ") is (wanted == "markdown")
        assert "\x1b[" not in out


def test_a_saved_plan_is_shown_as_it_was_planned(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    assert call(capsys, "plan", "pyboy-ppo", *LIMITS, "-o", str(saved)) == (0, "", f"wrote {saved}\n")
    _, planned, _ = call(capsys, "plan", "pyboy-ppo", *LIMITS, "--full")
    assert call(capsys, "show", str(saved)) == (0, planned, "")


def test_a_preset_is_a_run_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    copy = tmp_path / "copy.yaml"
    call(capsys, "presets", "--show", "pidog-sac", "-o", str(copy))
    _, mine, _ = call(capsys, "plan", str(copy), *LIMITS, "--json")
    _, theirs, _ = call(capsys, "plan", "pidog-sac", *LIMITS, "--json")
    assert json.loads(mine)["peaks"] == json.loads(theirs)["peaks"]


@pytest.mark.parametrize("which", ["plan", "run"])
def test_the_schemas_are_schemas(capsys: pytest.CaptureFixture[str], which: str) -> None:
    _, out, _ = call(capsys, "schema", which)
    jsonschema.Draft202012Validator.check_schema(json.loads(out))


@pytest.mark.parametrize(
    ("name", "start"), [("a.md", "# pidog"), ("a.json", "{"), ("a.txt", "RAM peaks"), ("a", "RAM peaks")]
)
def test_a_file_name_chooses_its_format(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, start: str
) -> None:
    call(capsys, "plan", "pidog-sac", *LIMITS, "-o", str(tmp_path / name))
    assert (tmp_path / name).read_text().startswith(start)


def test_settings_json_cannot_hold_are_written_as_text(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("extends: pidog-sac-vector\nsettings: {start: 2026-01-01, lo: -.inf, deep: {s: !!set {a, b}}}\n")
    _, out, _ = call(capsys, "plan", str(path), *LIMITS, "--json")
    settings = json.loads(out, parse_constant=pytest.fail)["target"]["spec"]["settings"]
    assert (settings["start"], settings["lo"]) == ("2026-01-01", "-inf")


def test_a_failed_write_keeps_the_old_file_and_leaves_nothing_behind(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "plan.md"
    target.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    code, out, err = call(capsys, "plan", "pidog-sac", *LIMITS, "-o", str(target))
    assert (code, out, err) == (2, "", f"rlmem: cannot write {target}: No space left on device\n")
    assert target.read_text() == "old"
    assert list(tmp_path.glob("*")) + list(tmp_path.glob(".rlmem*")) == [target]


@pytest.mark.parametrize("place", ["missing/plan.md", "file/plan.md", "folder"])
def test_a_place_that_cannot_be_written_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    code, out, err = call(capsys, "presets", "-o", str(tmp_path / place))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"rlmem: cannot write {tmp_path / place}: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_permission_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="Permission denied"):
        write_whole(tmp_path / "plan.md", "text")


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_permissions_of_any_other(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "plan.md", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "plan.md").stat().st_mode) == mode


def test_a_link_is_written_through_and_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "real.md").write_text("old")
    (tmp_path / "link.md").symlink_to("real.md")
    write_whole(tmp_path / "link.md", "new")
    assert (tmp_path / "link.md").is_symlink()
    assert (tmp_path / "real.md").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_whole(pipe, "text\n")
    reader.join(5)
    assert received == ["text\n"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_name_that_is_as_long_as_names_may_be_can_be_written(tmp_path: Path) -> None:
    write_whole(tmp_path / ("x" * 255), "text")
    assert (tmp_path / ("x" * 255)).read_text() == "text"


def test_an_interrupt_is_one_line_and_130(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rlmem.app.subjects.read_description", interrupted)
    code, out, err = call(capsys, "plan", "pidog-sac", *LIMITS)
    assert (code, out, err.strip()) == (130, "", "rlmem: interrupted; nothing was written")


def test_running_out_of_memory_is_said_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def starved(*_: Any, **__: Any) -> None:
        raise MemoryError

    monkeypatch.setattr("rlmem.app.subjects.read_description", starved)
    assert call(capsys, "plan", "pidog-sac", *LIMITS) == (3, "", "rlmem: out of memory while planning\n")


def test_capacity_reads_machines_as_sizes_or_names(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(
        capsys, "capacity", "pidog-sac", "--vary", "buffer_size", "--machines", "8GB, laptop-16gb", "--json"
    )
    data = json.loads(out)
    assert code == 0
    assert [machine["name"] for machine in data["machines"]] == ["8GB", "laptop-16gb"]
    assert data["machines"][0]["largest"] < data["machines"][1]["largest"]
