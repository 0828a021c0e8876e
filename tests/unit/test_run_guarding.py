"""Levels, actions and post-mortems: pure, with moments made up."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rlmem.core.holdings import Holding
from rlmem.core.moments import Moment
from rlmem.errors import AnalysisError, UsageError
from rlmem.process.limits import Limit
from rlmem.runner.acting import Response
from rlmem.runner.causes import find_cause
from rlmem.runner.deaths import Death, Kills, read_death, read_kills
from rlmem.runner.guarding import Guard, Load, Policy, parse_action
from rlmem.runner.postmortem import examine, fitting_changes, what_grew
from rlmem.units import GIB, MIB


def moment(nbytes: int = 0, at_s: float = 0.0, **fields: Any) -> Moment:
    return Moment(at_s=at_s, tree_bytes=nbytes, rss_bytes=nbytes, **fields)


def levels(guard: Guard, *sizes: int, **fields: Any) -> list[list[str]]:
    return [[f"{alarm.load.what} {alarm.level}" for alarm in guard.look(moment(size, **fields))] for size in sizes]


def test_each_level_is_told_once_and_again_only_after_it_was_clearly_left() -> None:
    guard = Guard(Policy(max_ram_bytes=100))
    assert levels(guard, 50, 81, 90, 93, 99) == [[], ["RAM warn"], [], ["RAM act"], []]
    assert levels(guard, 91, 93) == [[], []]  # at the edge
    assert levels(guard, 85, 93) == [[], ["RAM act"]]
    assert levels(guard, 50, 95) == [[], ["RAM warn", "RAM act"]]


def test_the_smaller_of_the_limit_asked_for_and_the_machines_counts() -> None:
    policy = Policy(max_ram_bytes=1000)
    load = Guard(policy).over(moment(95, limit_bytes=100, limit_name="cgroup"))
    assert load is not None
    assert (load.limit, load.name) == (100, "cgroup")
    assert Guard(policy).over(moment(95, limit_bytes=2000, limit_name="cgroup")) is None
    assert Guard(Policy()).over(moment(10**12)) is None


def test_a_full_gpu_is_warned_of_and_acted_upon_only_against_a_limit_of_its_own() -> None:
    filled = {"vram_bytes": 95, "vram_limit_bytes": 100}
    assert levels(Guard(Policy()), 0, **filled) == [["VRAM warn"]]
    assert Guard(Policy()).over(moment(**filled)) is None
    assert levels(Guard(Policy(max_vram_bytes=90)), 0, **filled) == [["VRAM warn", "VRAM act"]]


def test_threads_have_no_warning_level_of_their_own() -> None:
    guard = Guard(Policy(max_threads=30))
    assert levels(guard, 0, threads=30) == [[]]
    assert levels(guard, 0, threads=31) == [["threads warn", "threads act"]]
    assert levels(guard, 0, threads=53) == [[]]


def test_a_look_before_its_time_is_worth_it_at_the_next_level() -> None:
    guard = Guard(Policy(max_ram_bytes=1000))
    assert [guard.next_bytes(moment(size)) for size in (100, 850, 950)] == [800, 920, None]


@pytest.mark.parametrize(
    ("text", "action", "number"),
    [
        ("stop", "stop", signal.SIGUSR1),
        ("signal", "signal", signal.SIGUSR1),
        ("signal:USR2", "signal", signal.SIGUSR2),
        ("signal:sigint", "signal", signal.SIGINT),
        ("signal:15", "signal", signal.SIGTERM),
    ],
)
def test_actions_are_read(text: str, action: str, number: int) -> None:
    assert parse_action(text) == (action, number)


@pytest.mark.parametrize("text", ["halt", "stop:USR1", "signal:NOPE", "signal:0", "", "signal:-1"])
def test_an_unknown_action_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="--on-pressure"):
        parse_action(text)


class Fake:
    """Hands that note what they did, and an agent that answers from a list."""

    def __init__(self, *answers: Mapping[str, Any] | None) -> None:
        self.done: list[str] = []
        self.answers = list(answers)
        self.size = 0

    def terminate(self) -> None:
        self.done.append("TERM")

    def kill(self) -> None:
        self.done.append("KILL")

    def signal(self, number: int) -> None:
        self.done.append(f"signal {number}")

    def pids(self) -> tuple[int, ...]:
        return (10, 11)

    def ask(self, pid: int, request: Mapping[str, Any]) -> Mapping[str, Any]:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            raise AnalysisError(f"process {pid} has no agent")
        return answer

    def written(self, folder: str) -> int:
        return self.size


OVER = Load(what="RAM", used=95, limit=100, name="--max-ram")


def response(action: str, hands: Fake, said: list[str], grace_s: float = 10.0) -> Response:
    policy = Policy(action=action, grace_s=grace_s, checkpoint_to="/c")
    return Response(policy, hands, lambda kind, text: said.append(f"{kind}: {text}"))


def test_stop_is_sigterm_once_and_sigkill_after_the_grace() -> None:
    hands = Fake(None)
    one = response("stop", hands, [])
    for now in (0.0, 1.0, 9.0):
        one.tick(now, OVER)
    assert hands.done == ["TERM"]
    one.tick(10.0, None)  # gone under the level by now, and still there
    assert hands.done == ["TERM", "KILL"]
    assert one.stopped_for == OVER


def test_nothing_is_done_when_nothing_was_asked() -> None:
    hands = Fake(None)
    response("none", hands, []).tick(0.0, OVER)
    assert hands.done == []


def test_a_checkpoint_goes_to_whoever_has_a_model_and_a_stop_follows_if_that_frees_nothing() -> None:
    said: list[str] = []
    hands = Fake(
        None,  # the shell that started it has no agent
        {"state": "asked"},
        {"state": "saving"},
        {"state": "saved", "folder": "/c/step-8", "seconds": 1.0},
    )
    one = response("checkpoint", hands, said)
    one.tick(0.0, OVER)
    assert one.state == "asked"
    one.tick(1.0, OVER)
    one.tick(2.0, OVER)
    assert one.checkpoint["folder"] == "/c/step-8"
    assert hands.done == []
    one.tick(3.0, OVER)
    assert hands.done == ["TERM"]
    assert "still at the act level after the checkpoint" in said[-1]


def test_after_a_checkpoint_that_freed_memory_the_run_goes_on_and_may_ask_again() -> None:
    hands = Fake({"state": "asked"}, {"state": "saved", "folder": "/c/step-8"}, {"state": "asked"})
    one = response("checkpoint", hands, [])
    one.tick(0.0, OVER)
    one.tick(1.0, None)
    one.tick(2.0, None)
    assert one.state == "idle"
    one.tick(3.0, OVER)
    assert (one.state, hands.done) == ("asked", [])


def test_a_loop_that_does_not_take_the_wish_is_stopped_from_outside() -> None:
    said: list[str] = []
    hands = Fake({"state": "asked"})
    one = response("checkpoint", hands, said)
    for now in (0.0, 5.0, 9.9):
        one.tick(now, OVER)
    assert hands.done == []
    one.tick(10.0, OVER)
    assert hands.done == ["TERM"]
    assert "not taken by the training loop within 10 s" in said[-1]


def test_a_checkpoint_that_is_still_being_written_is_waited_for() -> None:
    hands = Fake({"state": "asked"}, {"state": "saving"})
    one = response("checkpoint", hands, [])
    for now in range(0, 100, 5):
        hands.size += 1
        one.tick(float(now), OVER)
    assert hands.done == []
    for now in range(100, 115, 5):
        one.tick(float(now), OVER)
    assert hands.done == ["TERM"]


def test_a_program_without_a_model_is_stopped_and_that_is_said() -> None:
    said: list[str] = []
    hands = Fake({"state": "nobody", "message": "no Stable-Baselines3 model is learning in this process"})
    response("checkpoint", hands, said).tick(0.0, OVER)
    assert hands.done == ["TERM"]
    assert "no Stable-Baselines3 model" in said[0]


def test_a_failed_checkpoint_is_told_and_followed_by_a_stop() -> None:
    said: list[str] = []
    hands = Fake({"state": "asked"}, {"state": "failed", "message": "OSError: no space left on device"})
    one = response("checkpoint", hands, said)
    for now in (0.0, 1.0, 2.0):
        one.tick(now, OVER)
    assert any("no space left" in text for text in said)
    assert hands.done == ["TERM"]


# -- post-mortems -------------------------------------------------------------------------------------------------------


def held(path: str, resident: int, nbytes: int = 0, **fields: Any) -> Holding:
    return Holding(
        path=path, kind=fields.pop("kind", "array"), type=fields.pop("type", "ndarray"),
        nbytes=nbytes or resident, resident_bytes=resident, **fields,
    )  # fmt: skip


def filling(seconds: int = 600) -> list[Moment]:
    """A buffer that fills by 10 MiB a second beside 1 GiB of other things; owners every minute."""
    moments = []
    for second in range(0, seconds + 1, 10):
        filled = 10 * MIB * second
        rows = second * 100
        owners = (
            held("model.replay_buffer.observations['image']", filled // 2, 8 * GIB, filled=rows, capacity=163_840),
            held("model.replay_buffer.next_observations['image']", filled // 2, 8 * GIB, filled=rows, capacity=163_840),
            held("model.policy", 100 * MIB, kind="store", type="MlpPolicy"),
        )
        moments.append(moment(GIB + filled, float(second), holdings=owners if second % 60 == 0 else None))
    return moments


def test_what_grew_in_the_last_minutes_is_told_by_owner() -> None:
    window, grown = what_grew(filling())
    assert window == 150.0 + 30.0  # to the last time owners were asked before
    assert [row.name for row in grown] == [
        "model.replay_buffer.observations['image']",
        "model.replay_buffer.next_observations['image']",
    ]
    assert grown[0].items == 18_000
    assert sum(row.nbytes for row in grown) == 10 * MIB * 180


def test_growth_that_no_owner_has_is_the_rest() -> None:
    moments = [moment((100 + second) * MIB, float(second)) for second in range(200)]
    window, grown = what_grew(moments)
    assert (grown[0].name, grown[0].nbytes) == ("the rest", round(window - 0.5) * MIB)


def test_the_largest_number_of_rows_that_fits_is_computed_from_what_was_held() -> None:
    (text, *_) = fitting_changes(filling(), 8 * GIB)
    # 163,840 rows of 100 KiB take 16 GiB; 7.6 GiB are allowed, of which 1 GiB is taken by the rest.
    rows = int((0.95 * 8 * GIB - GIB) * 163_840 / (16 * GIB))
    assert 0 < rows - 67_000 < 1000
    assert "`model.replay_buffer` with 67,000 rows instead of 163,840" in text


def test_a_store_that_fits_at_no_size_is_told_so() -> None:
    (text, *_) = fitting_changes(filling(), GIB // 2)
    assert "no size of `model.replay_buffer`" in text


def test_a_container_without_an_end_is_named() -> None:
    infos = held("trainer.episode_infos", 600 * MIB, kind="container", type="list", filled=31_000, capacity=None)
    (text,) = fitting_changes([moment(GIB, holdings=(infos,))], None)
    assert "give `trainer.episode_infos` (list, 31,000 items, 600 MiB) an end" in text


def kept_graphs(seconds: int = 13, *, looks: tuple[int, ...] = (3, 6, 9, 12)) -> list[Moment]:
    """A list of losses that gains 100 tensors a second, each with a graph of 1.5 MiB that no walk sees."""
    return [
        moment(
            300 * MIB + 150 * MIB * at,
            float(at),
            holdings=(
                held("obs_buf", 55 * MIB),
                held(
                    "losses", 100 * at * 600, kind="container", type="list", filled=100 * at,
                    note=f"holds {100 * at} tensors with the graphs they came from", added_at="train.py:9: losses.append(loss)",
                ),
            )
            if at in looks
            else None,
        )
        for at in range(seconds + 1)
    ]  # fmt: skip


def test_the_heap_that_grew_with_tensors_that_keep_graphs_is_theirs() -> None:
    window, (first, *_) = what_grew(kept_graphs())
    assert first.name == "losses"
    assert first.nbytes == pytest.approx(9 * 150 * MIB, rel=0.01)
    assert window == 9
    (change,) = fitting_changes(kept_graphs(), None)
    assert change.startswith(
        "`losses` keeps tensors with the graphs they came from (1,200 items, about 1.76 GiB with their graphs)"
    )
    assert "loss.item()" in change
    assert change.endswith("instead (train.py:9)")


def test_a_list_whose_tensors_come_and_go_keeps_no_heap() -> None:
    def losses(at: int) -> Holding:
        count = 100 * (at % 2 + 1)
        note = "holds tensors with the graphs they came from"
        return held("losses", 600 * count, kind="container", type="list", filled=count, note=note)

    moments = [moment((300 + 150 * at) * MIB, float(at), holdings=(losses(at),)) for at in range(13)]
    assert not any(row.name == "losses" and row.nbytes > MIB for row in what_grew(moments)[1])


def test_owners_that_were_asked_once_have_grown_since_the_start() -> None:
    infos = held("infos", 700 * MIB, kind="container", type="list", filled=7000)
    moments = [moment((100 + 100 * at) * MIB, float(at), holdings=(infos,) if at == 8 else None) for at in range(10)]
    window, (first, *_) = what_grew(moments)
    assert (window, first.name, first.nbytes) == (8.0, "infos", 700 * MIB)


def test_entries_of_one_list_are_one_owner() -> None:
    def log(at: int) -> tuple[Holding, ...]:
        rows = (held(f"log[{n}]", 20 * MIB, kind="array") for n in range(at))
        return (held("log", 1000, kind="container", type="list", filled=at), *rows)

    moments = [moment((100 + 20 * at) * MIB, 30.0 * at, holdings=log(at)) for at in range(1, 9)]
    (first, *_) = what_grew(moments)[1]
    assert (first.name, first.nbytes) == ("log", 40 * MIB)
    assert fitting_changes(moments, None)[0].startswith("give `log` (list, 8 items, 160 MiB) an end")


def cause(**fields: Any) -> Any:
    defaults: dict[str, Any] = {
        "returncode": 1, "stopped_for": None, "deaths": (), "kills": (), "moments": [moment(GIB)],
    }  # fmt: skip
    return find_cause(**{**defaults, **fields})


def test_a_run_that_failed_for_another_reason_has_no_post_mortem() -> None:
    assert cause(deaths=[Death(pid=1, type="builtins.ValueError", kinds=("ValueError",))]) is None
    assert cause(returncode=0, kills=("/sys/fs/cgroup/x",)) is None


@pytest.mark.parametrize("returncode", [-9, 137, 1])
def test_the_kernels_killer_is_named_with_the_cgroup_and_its_limit(returncode: int) -> None:
    limit = Limit(kind="cgroup v2", nbytes=2 * GIB, detail="/sys/fs/cgroup/job/memory.max")
    found = cause(returncode=returncode, kills=("/sys/fs/cgroup/job",), limits=[limit])
    assert (found.kind, found.limit_bytes) == ("oom-killer", 2 * GIB)
    assert "cgroup /sys/fs/cgroup/job (limit 2.00 GiB)" in found.cause


@pytest.mark.parametrize(
    ("kinds", "message", "kind", "wanted"),
    [
        (("_ArrayMemoryError", "MemoryError"), "Unable to allocate 8.00 GiB for an array", "memory-error", 8 * GIB),
        (("MemoryError",), "Unable to allocate 512. MiB for an array", "memory-error", 512 * MIB),
        (("MemoryError",), "Unable to allocate 1.2.3 GiB for an array", "memory-error", None),
        (("RuntimeError",), "DefaultCPUAllocator: can't allocate memory: you tried to allocate 4096 bytes. Error code 12",
         "memory-error", 4096),
        (("OutOfMemoryError", "RuntimeError"), "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0", "cuda-oom",
         20 * MIB),
        (("RuntimeError",), "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)", "cuda-oom", 2 * GIB),
        (("MemoryError",), "", "memory-error", None),
    ],
)  # fmt: skip
def test_exceptions_for_want_of_memory_are_recognised(
    kinds: tuple[str, ...], message: str, kind: str, wanted: int | None
) -> None:
    death = read_death({"pid": 1, "type": f"x.{kinds[0]}", "kinds": list(kinds), "message": message, "new": 1})
    assert death.wanted_bytes == wanted
    found = cause(deaths=[death])
    assert found is not None
    assert found.kind == kind


def test_a_post_mortem_has_all_its_parts() -> None:
    found = examine(cause(returncode=-9, moments=filling(), kills=("machine",)), filling(), ["another way"])
    assert "OOM killer for the machine" in found.cause
    assert found.grown
    assert found.advice == ("another way",)  # not said to fit


def test_rows_in_ram_are_not_fitted_to_a_gpu() -> None:
    death = Death(pid=1, type="torch.OutOfMemoryError", kinds=("OutOfMemoryError",), message="")
    found = examine(cause(deaths=[death], moments=filling()), filling())
    assert (found.kind, found.changes) == ("cuda-oom", ())


def test_kills_are_counted_per_cgroup_and_on_the_machine(tmp_path: Path) -> None:
    group = tmp_path / "sys/fs/cgroup/job"
    group.mkdir(parents=True)
    (tmp_path / "proc/5").mkdir(parents=True)
    (tmp_path / "proc/5/cgroup").write_text("0::/job\n")
    (tmp_path / "proc/vmstat").write_text("oom_kill 3\n")
    (group / "memory.events").write_text("oom 0\noom_kill 1\n")
    before = read_kills(5, root=tmp_path)
    assert before.risen(before) == ()
    (group / "memory.events").write_text("oom 1\noom_kill 2\n")
    after = read_kills(5, root=tmp_path, known=before)
    assert before.risen(after) == (str(group),)
    assert before.risen(Kills(groups=before.groups, machine=4)) == ("machine",)


KERNEL = {"ram": 16 * GIB, "swap": 0, "overcommit": 0, "commit_limit": 8 * GIB, "committed": 7 * GIB}
LARGE = "Unable to allocate 40.0 GiB for an array"


@pytest.mark.parametrize(
    ("message", "kernel", "words"),
    [
        (LARGE, KERNEL, "no more at once than the machine has, 16.0 GiB of RAM and swap (overcommit)"),
        ("", {**KERNEL, "overcommit": 2}, "promises 8.00 GiB to all processes together, and 7.00 GiB were promised"),
        ("", {**KERNEL, "maps": 65_530, "most_maps": 65_530}, "65,530 mappings"),
        ("Unable to allocate 1.00 GiB", KERNEL, "no limit is known that refused it"),
        ("", KERNEL, "does not say how much it asked for"),
    ],
)
def test_a_refusal_is_told_with_its_evidence(message: str, kernel: dict[str, int], words: str) -> None:
    death = Death(pid=1, type="builtins.MemoryError", kinds=("MemoryError",), message=message, kernel=kernel)
    assert words in cause(deaths=[death]).cause


def test_an_error_brought_from_a_worker_is_told_at_the_workers_own_line() -> None:
    remote = 'Traceback (most recent call last):\n  File "/p/lib/python3.11/multiprocessing/pool.py", line 125, in worker\n' \
        '  File "/home/me/train.py", line 7, in step\n  File "/p/lib/python3.11/site-packages/numpy/_core/numeric.py", line 232\n' \
        'numpy._core._exceptions._ArrayMemoryError: Unable to allocate 50.0 MiB for an array'  # fmt: skip
    death = Death(pid=1, type="builtins.RuntimeError", kinds=("RuntimeError",), message="worker failed", remote=remote)
    found = cause(deaths=[death], bounds={1: {}, 5: {"RLIMIT_AS": GIB}})
    assert found.cause.startswith(
        "no memory (RuntimeError) when it asked for 50.0 MiB at /home/me/train.py:7 (numpy/_core/numeric.py:232) in worker 5: "
        "RLIMIT_AS of 1.00 GiB"
    )


def test_elements_of_a_list_that_were_seen_once_are_one_owner_and_no_endless_one() -> None:
    rows = tuple(held(f"worker 7: keep[{n}]", 50 * MIB, kind="array") for n in range(3))
    moments = [moment(200 * MIB, 1.0), moment(400 * MIB, 4.0, holdings=(held("x", MIB, kind="array"), *rows))]
    (first, *_) = what_grew(moments)[1]
    assert (first.name, first.nbytes) == ("worker 7: keep", 150 * MIB)
    assert fitting_changes(moments, 300 * MIB) == ()


def test_of_several_errors_the_first_that_can_be_explained_is_told() -> None:
    thread = Death(pid=1, type="builtins.MemoryError", kinds=("MemoryError",), thread="loader", kernel=KERNEL, at=1.0)
    limited = Death(pid=1, type="builtins.MemoryError", kinds=("MemoryError",), limits={"RLIMIT_AS": GIB}, at=2.0)
    found = cause(deaths=[thread, limited])
    assert "RLIMIT_AS of 1.00 GiB" in found.cause
    assert found.cause.endswith("; 1 more ended for want of memory")
