"""The JSON API beneath the pages: the documents that the commands print with ``--json``."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from rlmem.app.capacity import capacity_curve_document
from rlmem.app.explain import ExplainRequest
from rlmem.app.explain import explain as explain_process
from rlmem.app.machines import list_machines
from rlmem.app.presets import list_presets
from rlmem.app.report import report_document
from rlmem.core.fields import FIELDS
from rlmem.documents.contract import to_plain
from rlmem.documents.parts import part_of
from rlmem.documents.serve_tables import FieldPart, FieldsDocument, ProcessesDocument, ProcessRow
from rlmem.errors import UsageError
from rlmem.serve import runs
from rlmem.serve.desk import Desk
from rlmem.serve.live import polled_moment
from rlmem.serve.planning import as_command
from rlmem.serve.state import LARGEST_CONFIG, State, read_state, value_text

_OF = "A preset, or zoo:ALGO/ENV once it has been tried."
_MORE = "Further parameters are fields of the run ('/api/fields'), such as n_envs=4."
Pid = Annotated[int, Path(ge=1, le=2**31 - 1)]


class Json(JSONResponse):
    """JSON in ASCII: a command line that was recorded may hold what is no character."""

    def render(self, content: Any) -> bytes:
        """The bytes of an answer."""
        return json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode("ascii")


class Asked(BaseModel):
    """A run by name or as the text of a description, changes of its fields, and the machine."""

    of: str = Field(default="", description=_OF)
    config: str = Field(
        default="", max_length=LARGEST_CONFIG, description="A description as YAML or JSON, in place of 'of'."
    )
    sets: dict[str, Any] = Field(default_factory=dict, description="Fields to change, by path.")
    ram: str = Field(default="", max_length=40)
    vram: str = Field(default="", max_length=40)
    machine: str = Field(default="", max_length=80)

    def state(self) -> State:
        """The same as an address has it."""
        if not (self.of or self.config):
            raise UsageError("name a run with 'of', or describe one with 'config'")
        try:
            self.model_dump_json()
        except ValueError:
            raise UsageError("what was sent is not Unicode text") from None
        sets = {path: value if isinstance(value, str) else value_text(path, value) for path, value in self.sets.items()}
        return State(target=self.of, config=self.config, ram=self.ram, vram=self.vram, machine=self.machine, sets=sets)


def router(desk: Desk) -> APIRouter:
    """All of it."""
    made = APIRouter(prefix="/api", default_response_class=Json)
    _tables(made, desk)
    _plans(made, desk)
    _processes(made, desk)
    _runs(made, desk)
    return made


def _tables(made: APIRouter, desk: Desk) -> None:
    @made.get("/presets", tags=["tables"])
    def presets() -> dict[str, Any]:
        """Built-in runs and what they are (rlmem.presets/1)."""
        return to_plain(list_presets())

    @made.get("/machines", tags=["tables"])
    def machines() -> dict[str, Any]:
        """Named machines (rlmem.machines/1)."""
        return to_plain(list_machines())

    @made.get("/fields", tags=["tables"])
    def fields() -> dict[str, Any]:
        """Every field of a run's description (rlmem.fields/1)."""
        return to_plain(FieldsDocument(fields=tuple(part_of(FieldPart, field) for field in FIELDS)))

    @made.get("/zoo", tags=["tables"])
    def zoo() -> dict[str, Any]:
        """RL Zoo entries of the rl_zoo3 that is installed (rlmem.zoo/1)."""
        return to_plain(desk.zoo)


def _plans(made: APIRouter, desk: Desk) -> None:
    @made.get("/plan", tags=["plans"], description=f"A plan (rlmem.plan/1). {_MORE}")
    def plan(
        request: Request,
        of: Annotated[str, Query(description=_OF)] = "pidog-sac",
        ram: str = "",
        vram: str = "",
        machine: str = "",
    ) -> dict[str, Any]:
        return to_plain(desk.planning.judge(read_state(request.query_params.multi_items())).document)

    @made.post("/plan", tags=["plans"])
    def plan_asked(asked: Asked) -> dict[str, Any]:
        """A plan (rlmem.plan/1) of a run by name, or of a description."""
        return to_plain(desk.planning.judge(asked.state()).document)

    @made.post("/capacity", tags=["plans"])
    async def capacity(request: Request, asked: Asked) -> dict[str, Any]:
        """How far the run's main knob can be turned (rlmem.capacity-curve/1)."""
        return await desk.in_turn(request, lambda: _capacity(desk, asked.state()))

    @made.post("/fit", tags=["plans"])
    async def fit(request: Request, asked: Asked) -> dict[str, Any]:
        """The smallest change that makes it fit (rlmem.fit/1)."""
        return await desk.in_turn(request, lambda: _fit(desk, asked.state()))

    @made.post("/report", tags=["plans"])
    async def report(request: Request, asked: Asked) -> dict[str, Any]:
        """Everything a report shows (rlmem.report/2)."""
        return await desk.in_turn(request, lambda: _report(desk, asked.state()))


def _capacity(desk: Desk, state: State) -> dict[str, Any]:
    return to_plain(capacity_curve_document(desk.planning.plan(state).subject))


def _fit(desk: Desk, state: State) -> dict[str, Any]:
    planned = desk.planning.plan(state)
    return to_plain(desk.planning.fit(planned.state).document)


def _report(desk: Desk, state: State) -> dict[str, Any]:
    planned = desk.planning.judge(state)
    return to_plain(report_document(planned.subject, target=planned.state.run, command=as_command(planned.state)))


def _processes(made: APIRouter, desk: Desk) -> None:
    @made.get("/processes", tags=["processes"])
    def processes() -> dict[str, Any]:
        """Processes on this machine that look like training (rlmem.processes/1)."""
        rows = tuple(part_of(ProcessRow, process) for process in desk.finder.find())
        return to_plain(ProcessesDocument(processes=rows))

    @made.get("/processes/{pid}/now", tags=["processes"])
    def now(request: Request, pid: Pid) -> dict[str, Any]:
        """The latest moment of a watched process (rlmem.polled-moment/1), watched from the first call on; wants the token."""
        desk.check_token(request)
        return to_plain(polled_moment(desk.hub.look(pid)))

    @made.post("/processes/{pid}/explain", tags=["processes"])
    def explain(request: Request, pid: Pid, names: bool = True, trim: bool = False) -> dict[str, Any]:
        """Who holds the memory of a process (rlmem.explain/2); wants the token."""
        desk.check_token(request)
        return to_plain(explain_process(ExplainRequest(pid=pid, names=names, trim=trim)))


def _runs(made: APIRouter, desk: Desk) -> None:
    store = desk.settings.store

    @made.get("/runs", tags=["runs"])
    def listing(kind: str = "", text: str = "", limit: Annotated[int, Query(ge=1, le=1000)] = 50) -> dict[str, Any]:
        """Stored runs, newest first (rlmem.runs/1)."""
        return to_plain(runs.stored_runs(store, kind=kind, text=text, limit=limit))

    @made.get("/runs/{run}", tags=["runs"])
    def one(run: str) -> Any:
        """The document of a run, by its id or the start of it."""
        return to_plain(runs.document(store, run)[0])

    @made.get("/compare", tags=["runs"])
    def compare(left: str, right: str) -> Any:
        """Two runs of one kind side by side."""
        return to_plain(runs.compared(store, left, right))
