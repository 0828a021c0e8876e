"""``rlmem explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rlmem.cli.common import HtmlFile, Output, html_options, output_options
from rlmem.errors import UsageError

if TYPE_CHECKING:
    from rlmem.documents.cluster import ClusterDocument


@click.command("explain")
@click.argument("pid", type=int, required=False)
@click.option(
    "--ray",
    "on_ray",
    is_flag=True,
    help="A whole Ray cluster instead of a process: node, actor, owner; a probe a node.",
)
@click.option(
    "--address",
    metavar="ADDRESS",
    help="The cluster's address as ray.init takes it. Default: RAY_ADDRESS, else the cluster of this machine.",
)
@click.option("--name", metavar="TEXT", help="The process whose command holds this text, instead of a number.")
@click.option("--tree/--no-tree", default=True, show_default=True, help="Its children too.")
@click.option(
    "--names/--no-names", default=True, show_default=True, help="Ask the program for the names of its objects."
)
@click.option(
    "--fork-names",
    is_flag=True,
    help="Ask forked workers for names too. This copies pages that they share with their parent, for good.",
)
@click.option(
    "--advice/--no-advice", "advised", default=True, show_default=True, help="What the rules say of it and of its run."
)
@click.option("--trim", is_flag=True, help="Call malloc_trim in the program and say what that gave back.")
@click.option(
    "--unsafe-attach",
    is_flag=True,
    help="Without an agent, let gdb start one. It stops the program for a moment and calls into it: it can crash it.",
)
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.1),
    default=2.0,
    show_default=True,
    help="Seconds to wait for an answer of a process.",
)
@click.option(
    "--deadline",
    "deadline_s",
    type=click.FloatRange(min=1),
    default=30.0,
    show_default=True,
    help="With --ray: seconds to wait for a node; one that has not answered by then is a line of the report.",
)
@html_options
@output_options
def command(
    pid: int | None,
    on_ray: bool,
    address: str | None,
    name: str | None,
    tree: bool,
    names: bool,
    fork_names: bool,
    advised: bool,
    trim: bool,
    unsafe_attach: bool,
    timeout_s: float,
    deadline_s: float,
    report: HtmlFile,
    out: Output,
) -> int:
    """Say what holds the memory of a running process, page by page: by object, by class, and what is left.

    Names of objects come from an agent inside the program: 'rlmem run -- python train.py' puts one there, or the line
    'import rlmem.preload' in the program. Without one, memory is told by class.

    With --ray: every process of a cluster by node, role and trial, the object store of each node once, and owners where
    workers have an agent ('rlmem run -- ray start --head', or the setup hook 'rlmem.ray.naming.start').

    \b
    Examples:
      rlmem explain 47068
      rlmem explain --name train.py --tree --json
      rlmem explain 47068 --trim
      rlmem explain 47068 --no-names      (reads /proc only)
      rlmem explain --ray --html cluster.html
      rlmem explain --ray --address 10.0.0.1:6379 --no-names --json
    """
    if on_ray:
        _refuse_with_ray(pid=pid, name=name, trim=trim, unsafe_attach=unsafe_attach, fork_names=fork_names, tree=tree)
        report.check()
        from rlmem.app.explain_cluster import ExplainClusterRequest, explain_cluster
        from rlmem.report.progress import progress

        asked = ExplainClusterRequest(address=address, names=names, timeout_s=timeout_s, deadline_s=deadline_s)
        _emit_cluster(explain_cluster(asked, progress), out, report)
        return 0
    for option, is_given in (
        ("--address", address is not None),
        ("--html", report.path is not None),
        ("--redact", report.redact),
    ):
        if is_given:
            raise UsageError(f"{option} is for a cluster: give --ray too")
    if (pid is None) == (name is None):
        raise UsageError("give the number of a process, --name TEXT to find it by its command, or --ray for a cluster")
    from rlmem.app.explain import ExplainRequest, explain, process_named

    request = ExplainRequest(
        pid=process_named(name or "") if pid is None else pid,
        tree=tree,
        names=names,
        fork_names=fork_names,
        advice=advised,
        trim=trim,
        unsafe_attach=unsafe_attach,
        timeout_s=timeout_s,
    )
    out.show(explain(request))
    return 0


def _refuse_with_ray(
    *, pid: int | None, name: str | None, trim: bool, unsafe_attach: bool, fork_names: bool, tree: bool
) -> None:
    """What makes sense of one process only."""
    given = (
        ("the number of a process", pid is not None),
        ("--name", name is not None),
        ("--trim", trim),
        ("--unsafe-attach", unsafe_attach),
        ("--fork-names", fork_names),
        ("--no-tree", not tree),
    )
    for what, is_given in given:
        if is_given:
            raise UsageError(f"--ray explains a whole cluster: {what} is for one process; give one or the other")


def _emit_cluster(document: ClusterDocument, out: Output, report: HtmlFile) -> None:

    out.show(document)
    nodes = frozenset(word for node in document.nodes for word in (node.address, node.host))
    report.write(lambda: document, nodes)
