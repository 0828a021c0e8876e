"""Memory of processes, read from ``/proc``. Sizes are bytes; a process that is gone or closed to us reads as ``None``."""

import os

PAGE = os.sysconf("SC_PAGE_SIZE")
PROC = "/proc"


def read(path):
    """A file's bytes; ``None`` when it is gone or may not be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def sizes(text):
    """``Name:  12 kB`` lines as ``{name: bytes}``."""
    out = {}
    for line in text.decode("ascii", "replace").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if len(words) == 2 and words[1] == "kB" and words[0].isdigit():
            out[name] = int(words[0]) * 1024
    return out


def rollup(pid="self", root=PROC):
    """``smaps_rollup``: Rss, Pss, Pss_Anon, Pss_File, Pss_Shmem, Private_Clean, Private_Dirty, Anonymous, Swap …"""
    text = read(f"{root}/{pid}/smaps_rollup")
    return sizes(text) if text else None


def status(pid="self", root=PROC):
    """``status``: VmHWM, VmRSS, RssAnon, RssFile, RssShmem, VmSize … (a zombie has none of them)."""
    text = read(f"{root}/{pid}/status")
    found = sizes(text) if text else {}
    return found if "VmRSS" in found else None


def rss(pid="self", root=PROC):
    """Resident bytes, the cheap way; 0 for a process that is gone."""
    text = read(f"{root}/{pid}/statm")
    return int(text.split()[1]) * PAGE if text else 0


#: Places of the words of ``stat`` after the command's name.
STATE, PARENT, USER_TICKS, SYSTEM_TICKS, THREADS, START = 0, 1, 11, 12, 17, 19


def stat(pid="self", root=PROC):
    """The words of ``stat`` after the command's name, which may itself hold spaces and brackets; ``None`` when it is gone."""
    words = (read(f"{root}/{pid}/stat") or b"").rpartition(b")")[2].split()
    return words if len(words) > START else None


def parent(pid, root=PROC):
    """A process's parent; ``None`` when it is gone."""
    words = stat(pid, root)
    return int(words[PARENT]) if words else None


def command(pid, root=PROC):
    """The command line as one text."""
    return (read(f"{root}/{pid}/cmdline") or b"").replace(b"\0", b" ").decode("utf-8", "replace").strip()


def pids(root=PROC):
    """Every process there is."""
    return [int(name) for name in os.listdir(root) if name.isdigit()]


def tree(top, root=PROC):
    """A process and its descendants, parents first."""
    return trees((top,), root)


def trees(tops, root=PROC):
    """Several processes and their descendants, from one look at all processes."""
    children = {}
    for pid in pids(root):
        children.setdefault(parent(pid, root), []).append(pid)
    found, frontier = [], list(tops)
    while frontier:
        found += frontier
        frontier = [child for pid in frontier for child in sorted(children.get(pid, ()))]
    return found


def tree_bytes(processes, root=PROC):
    """What a tree holds together, each shared page once: its PSS as if nobody else mapped the same files."""
    return tree_parts(processes, root)[0]


def tree_parts(processes, root=PROC):
    """:func:`tree_bytes`, and the ``smaps_rollup`` of each process that it was added up from.

    Anonymous and shared-memory pages are shared within the tree only, so their PSS adds up. Library pages are shared
    with any process on the machine that loaded the same file; then their PSS says too little, but the process that
    maps most of them still shows them in full.
    """
    found = {}
    anonymous = files = most = 0
    for pid in processes:
        parts = rollup(pid, root)
        if not parts:
            continue
        found[pid] = parts
        if "Pss_Anon" not in parts:  # before Linux 5.4
            anonymous += parts.get("Pss", 0)
            continue
        anonymous += parts["Pss_Anon"] + parts["Pss_Shmem"] + parts.get("SwapPss", 0)
        files += parts["Pss_File"]
        most = max(most, (status(pid, root) or {}).get("RssFile", 0))
    return anonymous + max(files, most), found


def peak(pid="self", root=PROC):
    """The largest resident size since the start, or since :func:`reset_peak`."""
    found = status(pid, root) or {}
    return max(found.get("VmHWM", 0), found.get("VmRSS", 0))


def reset_peak(pid="self", root=PROC):
    """Let ``VmHWM`` start again from what is resident now; ``False`` where the kernel does not allow it."""
    try:
        with open(f"{root}/{pid}/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        return False
    return True


#: Bits of a page's entry in ``pagemap``: in memory, swapped out, of a file, mapped by this process alone.
PRESENT, SWAPPED, OF_FILE, ALONE = 63, 62, 61, 56


def resident(address, nbytes):
    """Bytes of this process's own range that were written: in memory of its own, or swapped out.

    A page that was only read shows the kernel's page of zeros, or a shared pattern: present, and nobody's. The page of
    zeros is told by not being mapped alone, which says nothing once pages are shared with forked children.
    """
    import numpy

    if not nbytes:
        return 0
    forked = bool((read(f"{PROC}/self/task/{os.getpid()}/children") or b"").strip())
    first, last = address // PAGE, (address + nbytes - 1) // PAGE
    pages, wanted = 0, last - first + 1
    with open(f"{PROC}/self/pagemap", "rb", buffering=0) as file:
        file.seek(first * 8)
        while wanted:
            entries = numpy.frombuffer(file.read(min(wanted, 1 << 16) * 8), dtype=numpy.uint64)
            if not len(entries):
                break
            present, swapped, of_file, alone = (
                (entries >> numpy.uint64(bit)) & numpy.uint64(1) for bit in (PRESENT, SWAPPED, OF_FILE, ALONE)
            )
            own = present & (of_file ^ numpy.uint64(1))
            pages += int((own if forked else own & alone).sum() + swapped.sum())
            wanted -= len(entries)
    return min(pages * PAGE, nbytes)


def waited():
    """Seconds this process (its main thread) was ready to run and another one had the core; 0 where nobody counts them."""
    words = (read("%s/self/schedstat" % PROC) or b"").split()
    return int(words[1]) / 1e9 if len(words) > 1 else 0.0
