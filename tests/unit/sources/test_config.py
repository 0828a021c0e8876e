"""Run files: what is read, and how everything else is refused."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

from rlmem.core.run_schema import RUN_JSON_SCHEMA
from rlmem.errors import SpecError, UsageError
from rlmem.sources import load
from rlmem.sources.config import LARGEST_FILE, read_run_file
from rlmem.sources.preset import PRESETS, preset_text, read_preset

GOOD = """\
schema: rlmem.run/1
framework: {name: sb3, version: 2.9.2}
algorithm: sac
observation: {type: box, shape: [31]}
action: {type: box, shape: [8]}
"""


def write(folder: Path, text: str | bytes, name: str = "run.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refuse(folder: Path, text: str | bytes) -> str:
    """The message a file is refused with: one line that names the file."""
    path = write(folder, text)
    with pytest.raises(UsageError) as caught:
        read_run_file(path)
    message = str(caught.value)
    assert message.startswith(str(path))
    assert "\n" not in message
    return message.removeprefix(str(path))


def test_a_file_gives_values_with_their_lines_and_its_own_name(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD, "walker.yaml")
    spec = read_run_file(path)
    assert (spec.name, spec.origin("name")) == ("walker", "file name")
    assert spec.origin("framework.version") == f"{path}:2"
    assert spec.origin("action") == f"{path}:5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_env: 4\n", ":1: n_env: unknown key (did you mean 'n_envs'?)"),
        (GOOD + "netwrk: {}\n", ":6: netwrk: unknown key (did you mean 'network'?)"),
        (GOOD + "network:\n  net_arh: [64]\n", ":7: network.net_arh: unknown key (did you mean 'network.net_arch'?)"),
        (GOOD + "zzzqqq: 3\n", ":6: zzzqqq: unknown key; 'rlmem schema run' lists all"),
        (GOOD + "n_envs: 4\nn_envs: 5\n", ":7: n_envs: written twice"),
        (GOOD + "network:\n  n_critics: 1\n  n_critics: 2\n", ":8: network.n_critics: written twice"),
        (GOOD + "n_envs: many\n", ":6: n_envs: 'many' is not a whole number"),
        (GOOD + "n_envs: [4]\n", ":6: n_envs: [4] is not a whole number"),
        (GOOD + "framework: sb3\n", ":6: framework: written twice"),
        ("framework: sb3\n", ":1: framework: expected a section with fields, got 'sb3'"),
        ("observation:\n  type: box\n  shape: [3,\n    0]\n", ":4: observation.shape[1]: expected a number from 1"),
        (
            "network:\n  extractor:\n    image:\n    - conv2d 3 k3\n    - rleu\n",
            ":5: network.extractor.image[1]: unknown",
        ),
        ("n_envs: 4: 5\n", ":1: not valid YAML: mapping values are not allowed"),
        ("a: [1, 2\n", ":2: not valid YAML"),
        ("\tn_envs: 4\n", ":1: not valid YAML"),
        ("x: !!python/object/apply:os.system [ls]\n", ":1: not valid YAML: could not determine a constructor"),
        ("? [a, b]\n: 1\n", ":1: not valid YAML"),
        ("a: *nobody\n", ":1: not valid YAML: found undefined alias"),
        ("a: 1\n---\nb: 2\n", ":2: not valid YAML: but found another document"),
        ("a: 2026-13-45\n", ": not valid YAML"),
        ("name: a\x00b\n", ""),
        ("- a\n- b\n", ": expected a mapping of fields, got list"),
        ("just words\n", ": expected a mapping of fields, got str"),
        ("schema: rlmem.run/2\n", ": schema: expected 'rlmem.run/1', got 'rlmem.run/2'"),
        ("extends: pidog-sacc\n", ": unknown preset 'pidog-sacc' (did you mean 'pidog-sac'?)"),
        ("extends: [pidog-sac]\n", ":1: extends: expected the name of a preset"),
        ("x: &x [*x]\n", ": nested more than 40 levels deep"),
        ("a: " + "[" * 41 + "]" * 41, ":1: nested more than 40 levels deep"),
        ("[" * 100_000, ":1: nested more than 40 levels deep"),
        ("{a: " * 100_000, ":1: nested more than 40 levels deep"),
        (b"name: caf\xe9\n", ": not UTF-8 text (byte 9); save it as UTF-8"),
        (b"\xff\xfen\x00", ": not UTF-8 text (byte 0)"),
        (b"#" * (LARGEST_FILE + 1), ": too large for a run description"),
    ],
)
def test_a_bad_file_is_refused_in_one_line_with_its_place(tmp_path: Path, text: str | bytes, message: str) -> None:
    assert refuse(tmp_path, text).startswith(message)


def test_aliases_of_aliases_do_not_blow_up(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert ": more than 20,000 values" in refuse(tmp_path, "\n".join(lines))


def test_anchors_and_merge_keys_work_as_in_any_yaml(tmp_path: Path) -> None:
    text = GOOD + "network: {net_arch: {pi: &wide [256, 256], qf: *wide}}\neval: {<<: {n_envs: 2}, attached: true}\n"
    spec = read_run_file(write(tmp_path, text))
    assert spec.get("network.net_arch") == {"pi": (256, 256), "qf": (256, 256)}
    assert (spec.get("eval.n_envs"), spec.get("eval.attached")) == (2, True)


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n", "{}", "\ufeff"])
def test_an_empty_file_is_named_and_told_where_to_start(tmp_path: Path, text: str) -> None:
    with pytest.raises(UsageError, match=r"run\.yaml: describes nothing; 'rlmem presets --show"):
        read_run_file(write(tmp_path, text))


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path) -> None:
    spec = read_run_file(write(tmp_path, b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()))
    assert spec.text("algorithm") == "sac"


def test_names_may_be_in_any_script(tmp_path: Path) -> None:
    spec = read_run_file(write(tmp_path, GOOD + "name: 四足机器人 🐕\n", "лаборатория.yaml"))
    assert spec.name == "四足机器人 🐕"
    assert "лаборатория.yaml:2" in spec.origin("framework.name")


def test_json_is_a_run_file_too(tmp_path: Path) -> None:
    data = yaml.safe_load(preset_text("pidog-sac"))
    spec = read_run_file(write(tmp_path, json.dumps(data, indent=1), "run.json"))
    assert dict(spec.values) == dict(read_preset("pidog-sac").values)


def test_null_unsets_what_a_preset_says(tmp_path: Path) -> None:
    spec = read_run_file(write(tmp_path, "extends: pidog-sac\nbatch_size: null\nn_envs: 2\n"))
    assert "batch_size" not in spec
    assert (spec.get("n_envs"), spec.get("buffer_size")) == (2, 400_000)
    assert spec.origin("buffer_size").startswith("preset pidog-sac:")


def test_what_is_no_file_is_said_so(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path, "is a directory, not a run file"),
        (tmp_path / "none.yaml", "no such file"),
        (write(tmp_path, "x") / "below.yaml", "cannot be read: Not a directory"),
        (tmp_path / ("x" * 300 + ".yaml"), "cannot be read: File name too long"),
    ):
        with pytest.raises(UsageError, match=message):
            read_run_file(path)


def test_a_stream_without_end_is_not_read_to_its_end() -> None:
    with pytest.raises(UsageError, match="too large"):
        read_run_file(Path("/dev/zero"))


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("pidog-sak", "unknown preset 'pidog-sak' (did you mean 'pidog-sac'?)"),
        ("train.py", "a script can be planned and measured"),
        ("nowhere.yaml", "nowhere.yaml: no such file"),
        ("", "no target: name a preset"),
    ],
)
def test_a_target_that_names_nothing_says_what_it_could_be(target: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load(target)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_valid_by_the_published_schema(name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(RUN_JSON_SCHEMA)
    jsonschema.validate(yaml.safe_load(preset_text(name)), RUN_JSON_SCHEMA)
    jsonschema.validate(read_preset(name).to_dict(), RUN_JSON_SCHEMA)


@pytest.mark.parametrize(
    "text", ["n_env: 4", "n_envs: []", "observation: {type: blob}", "device: tpu", "network: {extractor: [lineer 3]}"]
)
def test_the_published_schema_refuses_what_the_reader_refuses(tmp_path: Path, text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), RUN_JSON_SCHEMA)
    with pytest.raises(SpecError):
        read_run_file(write(tmp_path, text))
