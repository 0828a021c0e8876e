"""``rlmem workers`` and ``rlmem plan --nodes``: answers, documents, errors, exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlmem.app.place import Placement, placement_document
from rlmem.cli import run
from rlmem.cluster.nodes import NodeGroup
from rlmem.cluster.packing import pack
from rlmem.cluster.workload import Need, Workload
from rlmem.documents.contract import from_plain, schema_of
from rlmem.documents.kinds import read_document
from rlmem.documents.placement import PlacementDocument
from rlmem.documents.plan import PlanDocument
from rlmem.report.placement import placement_view
from rlmem.units import GIB

RLLIB = """\
schema: rlmem.run/1
name: atari
framework: {name: rllib}
algorithm: ppo
observation: {type: box, shape: [84, 84, 4], dtype: uint8}
action: {type: discrete, n: 6}
rllib: {num_env_runners: 40, num_learners: 2}
device: cuda
"""


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    code, out, _ = call(capsys, *arguments, "--json")
    document: dict[str, Any] = json.loads(out)
    placement = document.get("placement", document)
    jsonschema.validate(placement, schema_of(PlacementDocument))
    assert code == (0 if placement["trials"] else 1)
    return document


def test_how_many_trials_of_the_trading_run_fit_31_gb(capsys: pytest.CaptureFixture[str]) -> None:
    """The owner ran three and feared for memory."""
    document = answer(capsys, "workers", "crypto-ppo", "--ram", "31GB")
    (bundle,), (node,) = document["bundles"], document["nodes"]
    each = bundle["memory_bytes"][0]
    assert each == pytest.approx(1.1 * bundle["high_bytes"], abs=1)
    assert document["trials"] == int(0.95 * 31e9) // each > 30
    assert (document["limit"], document["on_ray"], node["cpus"]) == ("ram", False, None)
    code, out, _ = call(capsys, "workers", "crypto-ppo", "--ram", "31GB")
    assert code == 0
    assert out.startswith(f"{document['trials']} trials fit at once on this node; RAM stops one more")


def test_a_thousand_nodes_are_planned_by_counting(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "workers", "crypto-ppo", "--nodes", "1000x(64GB,16cpu)")
    assert (document["trials"], document["limit"], document["on_ray"]) == (16_000, "cpus", True)
    (use,) = document["uses"]
    assert use["nodes"] == 1000
    assert use["admit_bytes"] + use["object_store_bytes"] + use["node_bytes"] <= 0.95 * 64e9
    assert use["object_store_bytes"] < document["nodes"][0]["default_store_bytes"]


def test_a_larger_margin_fits_fewer(capsys: pytest.CaptureFixture[str]) -> None:
    fits = [
        answer(capsys, "workers", "crypto-ppo", "--ram", "31GB", "--margin", margin)["trials"]
        for margin in ("0", "10%", "0.5")
    ]
    assert fits == sorted(set(fits), reverse=True)


def test_ten_million_agents_are_shared_out_over_learners(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("workers", "drone-swarm", "--set", "agents=10M", "--set", "storage=stream", "--shard", "agents")
    document = answer(capsys, *arguments, "--nodes", "16x16GB")
    assert document["shards"] == {"path": "agents", "whole": 10_000_000, "count": 8, "each": 1_250_000}
    code, out, _ = call(capsys, *arguments, "--nodes", "16x16GB")
    assert (code, out.splitlines()[0]) == (
        0,
        "10,000,000 agents fit on 16 nodes over 8 learners of 1,250,000",
    )


def test_rllib_is_placed_role_by_role(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "atari.yaml"
    file.write_text(RLLIB)
    document = answer(capsys, "workers", str(file), "--nodes", "4x(64GB,16cpu,1xA100-80GB)")
    assert [(bundle["role"], bundle["count"]) for bundle in document["bundles"]] == [
        ("driver", 1),
        ("env-runner", 40),
        ("learner", 2),
    ]
    assert document["bundles"][2]["gpus"] == [1.0]
    # 64 cores, of which the driver has one; learners with GPUs take none.
    assert document["most"] == {"role": "env-runner", "count": 63}
    runners = [use["bundles"].get("env-runner", 0) * use["nodes"] for use in document["uses"]]
    assert sum(runners) == 40 * document["trials"]


def test_what_does_not_fit_says_so_and_what_would(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = call(capsys, "workers", "pidog-sac", "--nodes", "10x8GB")
    assert code == 1
    assert out.startswith("does not fit on 10 nodes: one trial needs")
    assert "a node with at least" in out
    assert "such as gcp-n2-standard-8 (32.0 GiB)" in out
    file = tmp_path / "atari.yaml"
    file.write_text(RLLIB)
    code, out, _ = call(capsys, "workers", str(file), "--nodes", "4x(64GB,4cpu)")
    assert code == 1
    assert "has no GPU" in out
    code, out, _ = call(capsys, "workers", str(file), "--nodes", "4x(64GB,4cpu,1xA100-80GB)")
    assert code == 1
    assert "25 of 40 env-runners find no place: nodes run out of cores" in out
    assert "with 15 env-runners it fits" in out
    assert "11 nodes of 64GB,4cpu,1xA100-80GB would hold a trial" in out


def test_the_nodes_are_the_limit_in_every_format(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "plan.html"
    words = ("plan", "crypto-ppo", "--nodes", "1GB")  # enough for the run, and not for Ray beside it
    code, out, _ = call(capsys, *words, "--html", str(page))
    assert code == 1
    first, second, *_ = out.splitlines()
    assert first.startswith("does not fit on this node: one trial needs")
    assert second.startswith("RAM peaks at") and "fits" not in second
    code, out, _ = call(capsys, *words, "--json")
    assert (code, json.loads(out)["verdict"]) == (1, "does-not-fit")
    text = page.read_text(encoding="utf-8")
    assert "does not fit on this node" in text
    assert "On the nodes: What is placed" in text
    assert json.loads(call(capsys, "plan", "crypto-ppo", "--nodes", "64GB", "--json")[1])["verdict"] == "fits"


def test_what_ray_was_told_to_admit_is_what_to_change_where_the_ram_is_there() -> None:
    workload = Workload(name="run", needs=(Need(role="trial", ram_bytes=18 * GIB),))
    node = NodeGroup(name="live", ram_bytes=32 * GIB, memory_bytes=4 * GIB, store_bytes=GIB, cpus=8)
    view = placement_view(placement_document(Placement(packing=pack(workload, (node,)))))
    (item,) = next(section for section in view.sections if section.title == "What does not fit").items
    assert item.more == (f"the node has the RAM: start it with ray start --memory={18 * GIB * 11 // 10 + 1} or more",)


def test_a_plan_on_nodes_carries_its_placement(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "atari.yaml"
    file.write_text(RLLIB)
    nodes = ("--nodes", "4x(64GB,16cpu,1xA100-80GB)")
    document = answer(capsys, "plan", str(file), *nodes)
    jsonschema.validate(document, schema_of(PlanDocument))
    placement = from_plain(PlanDocument, document, "here").placement
    assert placement is not None and placement.trials == 1
    assert document["machine"]["ram_bytes"] is None
    code, out, _ = call(capsys, "plan", str(file), *nodes)
    assert code == 0
    assert out.startswith("1 trial fits at once on 4 nodes")
    assert "On the nodes: For Ray" in out


@pytest.mark.parametrize(
    ("nodes", "shown"),
    [
        ("1x(16GB,1xT4) + 10x256GB", "256GB"),  # without VRAM, a GPU is no reason to be judged by a small node
        ("10x256GB + 1x(16GB,1xT4)", "256GB"),
        ("2x64GB + 1x(512GB,1xT4)", "512GB,1xT4"),  # most trials are there
        ("1x(64GB,1xT4) + 2x20GB", "64GB,1xT4"),
        ("10x8GB + 2x16GB", "16GB"),  # the nearest of those that hold none
        ("21.1GB", "21.1GB"),  # as expected it would fit, with the upper bound it does not
        ("22GB", "22GB"),  # fits, with a margin and not much beyond
        ("1x(512GB,2cpu) + 1x(40GB,64cpu)", "512GB,2cpu"),
        ("dgx-spark + 10x8GB", "dgx-spark"),
    ],
)
def test_text_json_exit_code_and_page_say_what_the_placement_says(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, nodes: str, shown: str
) -> None:
    page = tmp_path / "plan.html"
    code, out, _ = call(capsys, "plan", "pidog-sac", "--nodes", nodes, "--html", str(page))
    document = answer(capsys, "plan", "pidog-sac", "--nodes", nodes)
    fits = document["placement"]["trials"] > 0
    verdict = "fits" if fits else "does-not-fit"
    assert (document["verdict"], code) == (verdict, 0 if fits else 1)
    assert out.startswith("does not fit") is not fits
    # Not the rules, which say how another setting would fit.
    words = " ".join(finding["title"] for finding in document["findings"])
    assert not fits or not any(word in words for word in ("does not fit", "tight", "over", "too much"))
    assert {"MEM001", "MEM002"}.isdisjoint(finding["code"] for finding in document["findings"]) is fits
    assert document["machine"]["name"] == shown
    top = next(peak for peak in document["peaks"] if peak["is_peak"])
    assert (top["high_bytes"] <= document["machine"]["ram_bytes"]) is fits
    text = page.read_text(encoding="utf-8")
    assert f'data-verdict="{verdict}"' in text
    assert ('class="fill good"' in text, 'class="fill bad"' in text) == (fits, not fits)


def test_memory_of_a_gpu_is_not_taken_for_ram_where_a_node_has_one_pool(capsys: pytest.CaptureFixture[str]) -> None:
    """A node with one pool beside others: what the run holds on a GPU finds no place where there is none."""
    document = answer(capsys, "plan", "pyboy-ppo", "--nodes", "dgx-spark + 4x64GB")
    workers = answer(capsys, "workers", "pyboy-ppo", "--nodes", "dgx-spark + 4x64GB")
    assert document["placement"] == workers
    assert {use["group"] for use in workers["uses"]} == {0}
    assert (document["verdict"], document["machine"]["unified"]) == ("fits", True)


def test_a_learner_on_a_gpu_is_shown_against_a_node_with_one(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "plan", "pyboy-ppo", "--nodes", "10x256GB + 2x(128GB,1xA100-80GB)")
    assert (document["verdict"], document["machine"]["name"]) == ("fits", "128GB,1xA100-80GB")
    document = answer(capsys, "plan", "pyboy-ppo", "--nodes", "10x256GB")
    assert (document["verdict"], document["placement"]["lacks"][0]["resource"]) == ("does-not-fit", "vram")


def test_a_plan_in_one_place_that_fits_nowhere_is_shown_against_the_nearest_node(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = answer(capsys, "plan", "pidog-sac", "--nodes", "10x8GB + 2x16GB")
    assert document["verdict"] == "does-not-fit"
    # Of 95 % of it, Ray's processes, the smallest store and the margin are gone.
    assert 12 * 10**9 < document["machine"]["ram_bytes"] < 0.95 * 16 * 10**9 / 1.1


@pytest.mark.parametrize("ram", ["1300MB", "1400MB", "1500MB"])
def test_the_plan_and_the_placement_agree(capsys: pytest.CaptureFixture[str], ram: str) -> None:
    document = json.loads(call(capsys, "plan", "crypto-ppo", "--nodes", ram, "--json")[1])
    top = next(peak for peak in document["peaks"] if peak["is_peak"])
    assert (top["high_bytes"] <= document["machine"]["ram_bytes"]) is bool(document["placement"]["trials"])


def test_what_a_configuration_asks_for_of_a_gpu_is_told_from_what_it_needs(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "run.yaml"
    asks = "rllib: {num_env_runners: 2, num_learners: 1, learner_gpus: 1, runner_gpus: 0.25}"
    file.write_text(RLLIB.replace("rllib: {num_env_runners: 40, num_learners: 2}", asks))
    nodes = ("--nodes", "(64GB,16cpu,1xA100-80GB)")
    bundles = {bundle["role"]: bundle for bundle in answer(capsys, "workers", str(file), *nodes)["bundles"]}
    (share,) = bundles["learner"]["gpus"]
    assert 0 < share < 0.1
    assert (bundles["learner"]["asked_gpu"], bundles["env-runner"]["gpus"]) == (1, [0.25])
    out = call(capsys, "workers", str(file), *nodes)[1]
    assert f"that is with num_gpus_per_learner={share:g} in the configuration, which asks for 1" in out
    code, out, _ = call(capsys, "workers", str(file), "--nodes", "(64GB,16cpu)")
    assert code == 1
    assert "64GB,16cpu has no GPU" in out
    assert {"env-runner", "learner"} <= {
        line.split()[0] for line in out.splitlines() if "needs" in line and line[0] == " "
    }


def test_a_batch_that_runners_share_may_need_more_of_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With the fragments that RLlib works out itself, an EnvRunner holds the less the more of them there are."""
    file = tmp_path / "run.yaml"
    text = RLLIB.replace("[84, 84, 4], dtype: uint8", "[64, 64, 4], dtype: float32").replace("device: cuda\n", "")
    nodes = ("--nodes", "1x(345GB,1cpu) + 14x(10GB,1cpu)")
    for runners, fits in ((12, True), (2, False)):
        asks = f"rllib: {{num_env_runners: {runners}, train_batch: 400000}}"
        file.write_text(text.replace("rllib: {num_env_runners: 40, num_learners: 2}", asks))
        document = answer(capsys, "workers", str(file), *nodes)
        assert (document["trials"], document["most"]) == (int(fits), {"role": "env-runner", "count": 14})
        out = call(capsys, "workers", str(file), *nodes)[1]
        assert ("one trial alone could have 14 env-runners at most" in out) is fits
        assert ("with 14 env-runners it fits" in out) is not fits
        assert "not even one fits" not in out


ASKING = "rllib: {num_env_runners: 6, num_learners: 1, runner_resources: [sim=1], placement_strategy: %s}"


@pytest.mark.parametrize(
    ("strategy", "nodes", "said"),
    [
        ("strict_spread", "10x(64GB,16cpu)", "STRICT_SPREAD: every bundle of a trial is on another node"),
        ("strict_spread", "4x(64GB,16cpu)", "wants another node for each of 8 bundles, and 4 nodes can hold one"),
        ("strict_pack", "2x(64GB,16cpu)", "STRICT_PACK: all bundles of a trial are on one node"),
        ("strict_pack", "2x(64GB,7cpu)", "one trial needs 8 cores, 1 more than the 7 of 64GB,7cpu"),
        ("spread", "2x(64GB,7cpu)", "SPREAD is a wish of Ray's"),
        ("pack", "2x(64GB,7cpu)", "1 trial fits at once"),
    ],
)
def test_strategy_and_custom_resources_of_a_configuration_are_said_and_kept(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, strategy: str, nodes: str, said: str
) -> None:
    file = tmp_path / "run.yaml"
    text = RLLIB.replace("device: cuda\n", "").replace("shape: [84, 84, 4], dtype: uint8", "shape: [8], dtype: float32")
    file.write_text(text.replace("rllib: {num_env_runners: 40, num_learners: 2}", ASKING % strategy))
    document = answer(capsys, "workers", str(file), "--nodes", nodes)
    assert document["strategy"] == strategy.upper()
    assert [bundle["resources"] for bundle in document["bundles"]] == [{}, {"sim": 1.0}, {}]
    assert bool(document["trials"]) is not (nodes in ("4x(64GB,16cpu)", "2x(64GB,7cpu)") and "strict" in strategy)
    out = call(capsys, "workers", str(file), "--nodes", nodes)[1]
    assert said in out
    assert "What nodes have of sim nobody said, so it limits nothing here" in out
    if document["trials"]:
        assert '"sim": 1}' in out
        assert f'strategy="{strategy.upper()}"' in out


def test_a_placement_that_an_older_version_saved_is_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "placement.json"
    document = answer(capsys, "workers", "crypto-ppo", "--nodes", "4x(64GB,16cpu)")
    for each in (*document["nodes"], *document["bundles"]):
        del each["resources"]
    file.write_text(json.dumps(document))
    code, out, _ = call(capsys, "show", str(file))
    assert (code, out) == (0, call(capsys, "workers", "crypto-ppo", "--nodes", "4x(64GB,16cpu)")[1])


@pytest.mark.parametrize(("asked", "fits"), [("0.01", False), ("0.1", False), ("0", True)])
def test_a_hundred_runners_do_not_share_a_gpu_because_each_asks_for_little_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, asked: str, fits: bool
) -> None:
    """A CUDA context and a module each: 90 of them are more than a T4 has."""
    file = tmp_path / "run.yaml"
    asks = f"rllib: {{num_env_runners: 90, runner_gpus: {asked}}}"
    text = RLLIB.replace("rllib: {num_env_runners: 40, num_learners: 2}", asks).replace("device: cuda\n", "")
    file.write_text(text)
    document = answer(capsys, "workers", str(file), "--nodes", "(512GB,1xT4)")
    assert bool(document["trials"]) is fits
    (runner,) = (bundle for bundle in document["bundles"] if bundle["role"] == "env-runner")
    share = runner["gpus"][0]
    assert share == 0 if fits else share >= max(float(asked), runner["vram_bytes"] / (15 * GIB))


def test_a_share_of_a_gpu_is_a_number(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "run.yaml"
    file.write_text(RLLIB)
    for value in ("much", "-1", "nan", "inf", "true"):
        code, out, err = call(capsys, "workers", str(file), "--nodes", "64GB", "--set", f"rllib.learner_gpus={value}")
        assert (code, out) == (2, "")
        assert "rllib.learner_gpus: expected a number such as 0.5, at least 0" in err


def test_a_saved_placement_is_shown_again(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "placement.json"
    arguments = ("workers", "crypto-ppo", "--nodes", "4x(64GB,16cpu)")
    assert call(capsys, *arguments, "-o", str(file))[0] == 0
    document = read_document(json.loads(file.read_text()), "here")
    assert isinstance(document, PlacementDocument) and document.trials == 64
    assert call(capsys, "show", str(file))[1] == call(capsys, *arguments)[1]


def test_the_schema_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(capsys, "schema", "placement")
    assert (code, json.loads(out)) == (0, schema_of(PlacementDocument))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("crypto-ppo", "--nodes", "4x"), "neither a size nor a machine"),
        (("crypto-ppo", "--nodes", "4x(64,16cpu)"), "64 of what? add a unit, such as 64GB"),
        (("crypto-ppo", "--nodes", "4x64GB,1xT4"), "parts of a node go in brackets, like 4x(64GB,16cpu,1xA100-80GB)"),
        (("crypto-ppo", "--nodes", "64GB", "--ram", "64GB"), "contradict"),
        (("crypto-ppo", "--ray", "--ram", "64GB"), "contradict"),
        (("crypto-ppo", "--ray", "--nodes", "64GB"), "contradict"),
        (("crypto-ppo", "--nodes", "64GB", "--address", "10.0.0.1:6379"), "--address is for --ray"),
        (("crypto-ppo", "--nodes", "64GB", "--margin", "lots"), "--margin 'lots' is not a share"),
        (("crypto-ppo", "--nodes", "64GB", "--margin", "100%"), "below 100%"),
        (("crypto-ppo", "--nodes", "64GB", "--margin", "nan"), "--margin 'nan'"),
        (("crypto-ppo", "--nodes", "64GB", "--shard", "device"), "only counts"),
        (("crypto-ppo", "--nodes", "64GB", "--shard", "nothing"), "unknown key"),
        (("crypto-pp", "--nodes", "64GB"), "did you mean 'crypto-ppo'"),
        (("crypto-ppo", "--machine", "rtx-4090", "--ram", "x"), "--ram 'x'"),
        (("crypto-ppo", "--nodes", "64GB", "--", "arg"), "script arguments"),
    ],
)
def test_wrong_requests_are_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], problem: str
) -> None:
    code, out, err = call(capsys, "workers", *arguments)
    assert (code, out) == (2, "")
    assert problem in err
    assert err.count("\n") == 1


def test_a_card_alone_has_no_ram_to_place_anything_in(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "workers", "crypto-ppo", "--machine", "rtx-4090")
    assert code == 3
    assert "give --ram or --nodes" in err


def test_this_machine_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "workers", "crypto-ppo", "--set", "n_steps=8")
    assert [node["name"] for node in document["nodes"]] == ["this machine"]
    assert document["nodes"][0]["cpus"] is not None
