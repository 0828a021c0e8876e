"""The pages and their parts, as routes."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, JSONResponse, Response

from rlmem.app.explain import ExplainRequest
from rlmem.app.explain import explain as explain_process
from rlmem.app.report import report_document
from rlmem.app.session import DryRunMissingError
from rlmem.errors import RlmemError, UsageError
from rlmem.process.processes import living
from rlmem.report.html.render import render_html
from rlmem.serve import fit_page, live_page, planner_page, runs, runs_page
from rlmem.serve.desk import Desk
from rlmem.serve.planning import as_command
from rlmem.serve.shell import fragment, page, problem
from rlmem.serve.state import LARGEST_CONFIG, LONGEST_LINK, State, packed, read_state
from rlmem.watch.thresholds import Thresholds, parse_level


def state_of(request: Request) -> State:
    """What the address of a request is about."""
    return read_state(request.query_params.multi_items())


def saved(text: str) -> Response:
    """A report to keep: our pages allow no script inside a page, and a report has its own in it."""
    return HTMLResponse(text, headers={"content-disposition": "attachment"})


def router(desk: Desk) -> APIRouter:
    """All pages."""
    made = APIRouter(default_response_class=HTMLResponse)
    _planner(made, desk)
    _live(made, desk)
    _runs(made, desk)
    return made


def _planner(made: APIRouter, desk: Desk) -> None:
    @made.get("/")
    def planner(request: Request) -> str:
        state = state_of(request)
        try:
            planned = desk.planning.plan(state)
        except DryRunMissingError:
            return page(
                state.target, "/", planner_page.untried(state, desk.zoo.entries, desk.trying.jobs.get(state.target))
            )
        opened = bool(request.query_params.get("_fit"))
        return page(planned.now.name, "/", planner_page.planner(planned, desk.zoo.entries, fit_open=opened))

    @made.get("/planner/picture")
    def picture(request: Request) -> Response:
        with desk.planning.turns.first():
            planned = desk.planning.plan(state_of(request))
            drawn = fragment(
                planner_page.answer(planned, again=True),
                planner_page.take_away(planned, again=True),
                planner_page.picture(planned),
            )
        headers = {"HX-Replace-Url": f"/?{planned.state.query}", "x-rlmem-knobs": planner_page.knob_news(planned)}
        return HTMLResponse(drawn, headers=headers)

    @made.get("/planner/more")
    async def more(request: Request) -> str:
        state = state_of(request)
        return await desk.in_turn(request, lambda: _more(desk, state))

    @made.get("/planner/fit")
    async def fit(request: Request) -> str:
        state = state_of(request)
        return await desk.in_turn(request, lambda: _fit(desk, state))

    @made.get("/planner/report.html")
    async def report(request: Request) -> Response:
        state = state_of(request)
        return saved(await desk.in_turn(request, lambda: _report(desk, state)))

    @made.post("/planner/config")
    async def config(request: Request) -> Response:
        body = await request.body()
        if len(body) > LARGEST_CONFIG:
            return JSONResponse(
                {"error": f"too large: a description has at most {LARGEST_CONFIG:,} B"}, status_code=413
            )
        try:
            text = body.decode("utf-8-sig")
        except UnicodeDecodeError:
            return JSONResponse({"error": "not UTF-8 text; save it as UTF-8"}, status_code=400)
        return await run_in_threadpool(_checked, desk, text)

    @made.post("/planner/try")
    def try_it(request: Request) -> str:
        desk.check_token(request)
        job = desk.trying.start(state_of(request).target)
        return fragment(planner_page.trying(job))

    @made.get("/planner/try")
    def tried(request: Request) -> Response:
        state = state_of(request)
        job = desk.trying.jobs.get(state.target)
        if job is not None and job.state == "done":
            return Response(headers={"HX-Redirect": f"/?{state.query}"})
        return HTMLResponse(fragment(planner_page.trying(job) if job else problem("nothing is being tried")))


def _more(desk: Desk, state: State) -> str:
    planned = desk.planning.judge(state)
    return desk.cache.get(
        f"more {planned.state.query} {planned.subject.plan.budget}",
        lambda: fragment(planner_page.more_picture(planned)),
    )


def _fit(desk: Desk, state: State) -> str:
    planned = desk.planning.plan(state)
    return fragment(fit_page.fit_steps(planned.state, desk.planning.fit(planned.state)))


def _report(desk: Desk, state: State) -> str:
    planned = desk.planning.judge(state)
    command = as_command(planned.state)
    return render_html(report_document(planned.subject, target=planned.state.run, command=command))


def _checked(desk: Desk, text: str) -> Response:
    """A description that can be planned gets an address; what is wrong with another is said."""
    state = State(target="", config=text)
    try:
        if not text.strip():
            raise UsageError("the description is empty")
        desk.planning.plan(state)
        if len(packed(text)) > LONGEST_LINK:
            raise UsageError(
                "it is right, but too long for a link; 'rlmem plan FILE --html plan.html' makes a report of it"
            )
    except RlmemError as error:
        return JSONResponse({"error": str(error)}, status_code=400)
    return JSONResponse({"url": f"/?{state.query}"})


def _live(made: APIRouter, desk: Desk) -> None:
    @made.get("/live")
    def live() -> str:
        return page("Live", "/live", live_page.live_page(desk.finder.find()))

    @made.get("/live/list")
    def listing() -> str:
        return fragment(live_page.listing(desk.finder.find()))

    @made.get("/live/{pid}")
    def watch(pid: int, warn: str = "") -> str:
        """The page; what it shows is asked for with the token, and only that begins a watch."""
        process = living(pid)
        _thresholds(warn)
        return page(f"Process {pid}", "/live", live_page.watch_page(pid, process.command, warn))

    @made.get("/live/{pid}/now")
    def now(request: Request, pid: int, seen: int = 0, warn: str = "") -> Response:
        desk.check_token(request)
        watched = desk.hub.look(pid)
        if watched.number == seen:
            return Response(status_code=204)
        found = _thresholds(warn)
        return HTMLResponse(desk.hub.drawn(watched, warn, lambda: fragment(live_page.now(watched, found, warn))))

    @made.post("/live/{pid}/explain")
    def explain(request: Request, pid: int, trim: bool = False) -> str:
        desk.check_token(request)
        return fragment(live_page.explained(explain_process(ExplainRequest(pid=pid, trim=trim))))


def _thresholds(warn: str) -> Thresholds:
    return Thresholds(warn_at=parse_level(warn, "warn at")) if warn.strip() else Thresholds()


def _runs(made: APIRouter, desk: Desk) -> None:
    store = desk.settings.store

    @made.get("/runs")
    def listing(kind: str = "", text: str = "") -> str:
        document = runs.stored_runs(store, kind=kind, text=text)
        return page("Runs", "/runs", runs_page.runs_page(document, kind, text))

    @made.get("/runs/compare")
    def compare(left: str = "", right: str = "") -> str:
        if not left or not right:
            raise UsageError("choose two runs: one on the left, one on the right")
        return page("Compare", "/runs", runs_page.compare_page(runs.compared(store, left, right), left, right))

    @made.get("/runs/{run}")
    def one(run: str) -> str:
        document, name = runs.document(store, run)
        return page(f"Run {name}", "/runs", runs_page.run_page(document, name))

    @made.get("/runs/{run}/report.html")
    def report(run: str) -> Response:
        document, name = runs.document(store, run)
        if not isinstance(document, runs_page.REPORTED):
            raise UsageError(f"run {name} has no report of its own; its JSON is at /api/runs/{name}")
        return saved(render_html(document))
