"""Files that a process maps into its memory and shares with the kernel: ``np.memmap``, LMDB, ``torch.load(mmap=True)``.

What is written to such a page goes to the file, so the kernel takes the page back when memory is short: it counts as
resident and is no need. A file that lies in memory itself (``/dev/shm``) has nowhere to go.
"""

import os

from . import proc

#: Smaller mappings are locales and locks.
LEAST = 1 << 20
IN_RAM = frozenset(("tmpfs", "ramfs", "devtmpfs", "hugetlbfs"))


def mappings(pid="self"):
    """Each shared mapping of a file: begin, end, path, and bytes resident, its share of them (PSS), and private ones."""
    found, row = [], None
    for line in (proc.read("%s/%s/smaps" % (proc.PROC, pid)) or b"").splitlines():
        words = line.split(None, 5)
        if not words[0].endswith(b":"):
            begin, end = (int(part, 16) for part in words[0].split(b"-"))
            path = words[5].decode("utf-8", "replace") if len(words) == 6 else ""
            kept = words[1][3:4] == b"s" and words[4] != b"0" and path.startswith("/") and end - begin >= LEAST
            kept = kept and not path.startswith(("/memfd:", "/dev/zero", "/SYSV", "/dev/nvidia", "/dev/dri"))
            row = {"begin": begin, "end": end, "file": path, "resident": 0, "share": 0, "private": 0} if kept else None
            found += [row] if kept else []
        elif row is not None and words[0] in _FIELDS:
            row[_FIELDS[words[0]]] += int(words[1]) << 10
    return found


_FIELDS = {b"Rss:": "resident", b"Pss:": "share", b"Private_Clean:": "private", b"Private_Dirty:": "private"}


def file_systems():
    """``(folder, type)`` of everything mounted, the deepest folders first."""
    rows = []
    for line in (proc.read(proc.PROC + "/self/mountinfo") or b"").decode("utf-8", "replace").splitlines():
        words, _, rest = line.partition(" - ")
        rows.append((words.split()[4].replace("\\040", " "), rest.split()[0]))
    return sorted(rows, key=lambda row: -len(row[0]))


def is_in_ram(path, mounted):
    """Whether a file lies in memory and not on a disk."""
    for folder, kind in mounted:
        if path == folder or path.startswith(os.path.join(folder, "")):
            return kind in IN_RAM
    return False


def on_disk(pid="self"):
    """The mappings whose pages the kernel can take back."""
    found = mappings(pid)
    mounted = file_systems() if found else ()
    return [row for row in found if not is_in_ram(row["file"], mounted)]


def held(processes):
    """For each process that has any, the sums of its mappings: resident, its share, private."""
    sums = {}
    for pid in processes:
        rows = on_disk(pid)
        if rows:
            sums[pid] = {name: sum(row[name] for row in rows) for name in ("resident", "share", "private")}
    return sums


def describe():
    """The files this process maps, in plain data, each once; ``in_ram`` for those that lie in memory."""
    files, mounted = {}, file_systems()
    for row in mappings():
        known = files.setdefault(
            row["file"], {"file": row["file"], "address": row["begin"], "nbytes": 0, "resident": 0}
        )
        known["nbytes"] += row["end"] - row["begin"]
        known["resident"] += row["resident"]
        known["end"] = row["end"]
        known["in_ram"] = is_in_ram(row["file"], mounted)
    return list(files.values())
