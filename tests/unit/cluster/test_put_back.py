"""What a keeper that was killed leaves behind: its worker puts files back, and removes what it worked in."""

from __future__ import annotations

import json
from pathlib import Path

from rlmem.ray.tasks import put_back


def journal(folder: Path, *rows: dict[str, str]) -> None:
    job = folder / "rlmem-job-x"
    job.mkdir(parents=True)
    (job / "journal.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def test_files_are_put_back_and_the_folder_is_gone(tmp_path: Path) -> None:
    made, changed, copy = tmp_path / "made", tmp_path / "changed", tmp_path / "copy"
    made.touch()
    changed.write_text("new")
    copy.write_text("old")
    folder = tmp_path / "rlmem-y"
    journal(folder, {"made": str(made)}, {"changed": str(changed), "copy": str(copy)})
    assert put_back(folder) == ()
    assert (made.exists(), changed.read_text(), folder.exists()) == (False, "old", False)


def test_where_a_file_cannot_be_put_back_its_copy_stays(tmp_path: Path) -> None:
    folder = tmp_path / "rlmem-y"
    journal(folder, {"changed": str(tmp_path / "changed"), "copy": str(tmp_path / "no-such-copy")})
    (failure,) = put_back(folder)
    assert failure.startswith(f"could not put back {tmp_path / 'changed'}")
    assert folder.exists()


def test_a_keeper_that_had_changed_nothing_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "rlmem-y"
    folder.mkdir()
    assert put_back(folder) == ()
    assert not folder.exists()
