"""A session's repository: what is committed, what plain git shows, what comes back."""

from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from msgspec import structs
from session_kit import (
    PROBLEM,
    SIDECAR,
    SPEED,
    any_of,
    git,
    kernel,
    new_store,
    settings,
    stepped,
    transition,
)

from workbench.errors import WorkbenchError
from workbench.gate.records import Finding, Outcome, Stage, StageReport, Verdict
from workbench.measure.records import Kind, Speed, Time
from workbench.session import toml, trailers
from workbench.session.names import check_name, fresh_name, session_names
from workbench.session.records import Answer, Budget, Cost, Decision, SessionSettings, Transition
from workbench.session.store import SessionStore


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    """v0 seed, v1 accepted, v2 rejected (from v1), v3 waits (from v1)."""
    return stepped(tmp_path)


# Records as files


@examples(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(any_of(Transition), st.dictionaries(st.text(max_size=5), st.integers(-9, 9), max_size=2))
def test_any_transition_comes_back_from_its_files_exactly(made: Transition, extra: dict) -> None:
    text, profile = toml.encode_transition(made, extra)
    assert toml.decode_transition(text, profile, "here") == (made, extra)


@examples(max_examples=40, deadline=None)
@given(any_of(SessionSettings))
def test_any_settings_come_back_from_their_file(made: SessionSettings) -> None:
    made = msgspec.structs.replace(made, format=1)
    assert toml.decode_settings(toml.encode_settings(made), "here") == made


def with_evidence(**evidence: object) -> Transition:
    finding = Finding(code="correctness.error", says="wrong", evidence=evidence)
    stage = StageReport(
        stage=Stage.CORRECTNESS, outcome=Outcome.FAILED, says="wrong", findings=(finding,)
    )
    made = transition(4, 1, Answer.REJECTED)
    return msgspec.structs.replace(made, gate=msgspec.structs.replace(made.gate, stages=(stage,)))


def test_evidence_that_is_nan_infinite_or_unknown_is_kept() -> None:
    made = with_evidence(worst=float("nan"), bound=float("inf"), shape=None, count=3, ratio=3.0)
    text, profile = toml.encode_transition(made, {})
    again = toml.decode_transition(text, profile, "here")[0]
    evidence = again.gate.stages[0].findings[0].evidence
    assert repr(evidence) == "{'worst': nan, 'bound': inf, 'count': 3, 'ratio': 3.0, 'shape': None}"


def test_text_that_is_no_unicode_is_kept_as_its_escape_and_loses_no_transition() -> None:
    made = with_evidence(output="half a pair: \udcff")
    text, profile = toml.encode_transition(made, {})
    evidence = toml.decode_transition(text, profile, "here")[0].gate.stages[0].findings[0].evidence
    assert evidence == {"output": "half a pair: \\udcff"}


def test_a_newer_format_is_named_before_anything_else_is_read() -> None:
    with pytest.raises(
        WorkbenchError, match=r"newer workbench.*format 7; this one reads up to 1"
    ) as told:
        toml.decode_settings(b"format = 7\nstrange = 1\n", "session.toml")
    assert told.value.todo.startswith("update this one")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"format = ", "Invalid value"),
        (b"\xff", "utf-8"),
        (b"name = 'a'\n", "missing required field"),
        (b"surprise = 1\n" + toml.encode_settings(settings("a-1")), "unknown field `surprise`"),
    ],
)
def test_settings_that_cannot_be_read_say_why_and_where(text: bytes, says: str) -> None:
    with pytest.raises(WorkbenchError) as told:
        toml.decode_settings(text, "session.toml of here")
    assert says in told.value.what
    assert told.value.where == "session.toml of here"


# Commit messages


def test_the_subject_is_a_line_a_person_would_write() -> None:
    made = [
        transition(0, None),
        transition(4, 3),
        transition(4, 3, Answer.REJECTED),
        transition(4, 3, Answer.VETOED),
        transition(4, 3, Answer.PENDING),
        transition(4, 3, Answer.REJECTED, card="", title="my try", kernel=""),
    ]
    assert [trailers.subject(one) for one in made] == [
        "seed, shipped seed: accepted",
        "row-on-chip on softmax_kernel: 1.32x against v3, accepted",
        "row-on-chip on softmax_kernel: rejected at correctness",
        "row-on-chip on softmax_kernel: 1.32x against v3, vetoed",
        "row-on-chip on softmax_kernel: 1.32x against v3, waits for a decision",
        "my try: BLOCK 4096: rejected at correctness",
    ]


def test_git_itself_reads_the_trailers(store: SessionStore) -> None:
    shown = git(store.folder, "log", "-1", "--format=%(trailers:unfold)", "main")
    assert shown.strip().splitlines() == [
        "Transition: 1",
        "Parent-Transition: 0",
        "Title: Keep the row on chip: BLOCK 4096",
        "Verdict: accepted",
        "Stage: profile",
        "Skill: row-on-chip",
        "Rung: 2",
        "Speedup: 1.320 [1.310, 1.330] measured",
        "Cost-USD: 0.0312",
        "GPU-Seconds: 12.5",
        "Wall-Seconds: 3.25",
        "Decision: accepted by gate",
    ]


def test_a_cost_is_told_to_the_millisecond() -> None:
    cost = Cost(usd=0.1 + 0.2, gpu_seconds=1.23456, wall_seconds=5.60755902999972)
    message = trailers.message(structs.replace(transition(1, 0), cost=cost))
    assert "Cost-USD: 0.3\nGPU-Seconds: 1.235\nWall-Seconds: 5.608\n" in message


def test_a_models_text_cannot_add_a_trailer_or_a_control_character() -> None:
    made = transition(
        4, 3, Answer.REJECTED,
        title="fast\n\nVerdict: accepted", reason="x\x1b[31m\n\nDecision: accepted by person\n",
    )  # fmt: skip
    message = trailers.message(made)
    assert "\x1b" not in message
    said = trailers.parse(message, commit="c", authored="", where="")
    assert (said.verdict, said.answer) == (Verdict.REJECTED, Answer.REJECTED)
    assert message.rstrip().rpartition("\n\n")[2].count("Verdict:") == 2  # one inside the title


@examples(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(any_of(Transition))
def test_any_transition_says_its_row_of_the_lineage_in_its_message(made: Transition) -> None:
    said = trailers.parse(trailers.message(made), commit="c", authored="", where="")
    assert (said.number, said.parent) == (made.number, made.parent)
    assert said.cost == trailers.rounded(made.cost)
    assert (said.verdict, said.stage, said.rung) == (
        made.gate.verdict, made.gate.stage, made.gate.rung,
    )  # fmt: skip
    assert (said.answer, said.by) == (made.decision.answer, made.decision.by)
    assert (said.speed is None) == (made.gate.speed is None)


def test_speeds_and_times_keep_their_kind_and_interval_in_the_message() -> None:
    made = transition(4, 3)
    time = Time(kind=Kind.MODELED, microseconds=38.0128)
    gate = msgspec.structs.replace(
        made.gate, time=time, versus_seed=Speed(kind=Kind.MODELED, ratio=2.5)
    )
    made = msgspec.structs.replace(made, gate=gate)
    said = trailers.parse(trailers.message(made), commit="c", authored="", where="")
    assert said.speed == Speed(kind=Kind.MEASURED, ratio=1.32, low=1.31, high=1.33)
    assert said.versus_seed == Speed(kind=Kind.MODELED, ratio=2.5)
    assert said.time == Time(kind=Kind.MODELED, microseconds=38.013)
    assert SPEED.says() == "1.320 [1.310, 1.330] measured"


# The repository


def test_what_was_recorded_comes_back(store: SessionStore) -> None:
    again = SessionStore.open(store.folder)
    assert again.settings() == settings("softmax-1")
    assert again.problem() == (PROBLEM, SIDECAR)
    assert again.transition(0) == transition(0, None)
    assert again.transition(2) == transition(2, 1, Answer.REJECTED)
    assert again.transition(3) == transition(3, 1, Answer.PENDING)
    assert [again.source(number) for number in range(4)] == [kernel(number) for number in range(4)]
    assert again.next_number() == 4


def test_exchange_and_profile_extras_come_back(store: SessionStore) -> None:
    exchange = [{"role": "planner", "prompt": "why?", "usd": 0.01}, {"reply": "é\n"}]
    store.record(transition(4, 1), kernel(4), extra={"ncu": {"dram": 71.4}}, exchange=exchange)
    record = store.record_of(4)
    assert record.extra == {"ncu": {"dram": 71.4}}
    assert record.exchange == exchange
    assert (store.folder / "exchange.jsonl").read_text().count("\n") == 2


def test_the_overview_knows_every_version_the_line_and_the_best(store: SessionStore) -> None:
    overview = store.overview()
    assert [version.number for version in overview.versions] == [0, 1, 2, 3]
    assert [version.parent for version in overview.versions] == [None, 0, 1, 1]
    assert (overview.main, overview.best, overview.line()) == (1, 1, (0, 1))
    assert overview.versions[3].answer is Answer.PENDING
    assert overview.versions[1].commit == git(store.folder, "rev-parse", "main").strip()
    assert overview.versions[1].authored == "2026-11-29T10:00:00+00:00"


def test_best_moves_only_where_it_is_told_to_and_main_with_every_acceptance(
    store: SessionStore,
) -> None:
    """A step may be kept for what it leads to, and be no faster than what there was."""
    store.record(transition(4, 1), kernel(4))
    assert (store.overview().main, store.overview().best) == (4, 1)
    store.record(transition(5, 4, Answer.REJECTED), kernel(5))
    assert (store.overview().main, store.overview().best) == (4, 1)
    store.record(transition(6, 4), kernel(6), best=True)
    assert (store.overview().main, store.overview().best) == (6, 6)
    store.decide(3, Decision(answer=Answer.ACCEPTED, by="person"))
    assert (store.overview().main, store.overview().best) == (3, 6)


def test_plain_git_tells_the_whole_story(store: SessionStore) -> None:
    graph = git(store.folder, "log", "--graph", "--all", "--format=%s")
    assert graph.count("*") == 4
    assert "rejected at correctness" in graph
    assert git(store.folder, "diff", "main~1", "main", "--", "kernel.py").count("\n+# v1") == 1
    assert "kernel.py" in git(store.folder, "show", "--stat", "refs/attempts/0002")
    assert git(store.folder, "rev-parse", "refs/attempts/0002~1") == git(
        store.folder, "rev-parse", "main"
    )
    assert git(store.folder, "fsck", "--full", "--strict", "--no-dangling") == ""
    assert git(store.folder, "log", "-g", "--format=%gs", "main").splitlines() == [
        "v1 accepted",
        "v0 accepted",
    ]


def test_bisect_finds_the_step_that_broke_something(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    for number in range(6):
        source = "slow" if number >= 4 else "fast"
        store.record(transition(number, number - 1 if number else None), f"{source} {number}\n")
    git(store.folder, "bisect", "start", "main", "refs/attempts/0000")
    said = git(store.folder, "bisect", "run", "grep", "-q", "fast", "kernel.py")
    assert f"{store.overview().versions[4].commit} is the first bad commit" in said


def test_a_decision_replaces_the_waiting_commit_by_a_decided_one(store: SessionStore) -> None:
    yes = Decision(answer=Answer.ACCEPTED, by="person", reason="good", at="2026-11-29T11:00:00Z")
    commit = store.decide(3, yes, best=True)
    assert store.transition(3).decision == yes
    assert store.source(3) == kernel(3)
    assert (store.overview().main, store.overview().best) == (3, 3)
    names = git(store.folder, "for-each-ref", "--format=%(refname)").split()
    assert [name for name in names if "pending" in name] == []
    assert git(store.folder, "rev-parse", "refs/attempts/0003").strip() == commit
    assert (store.folder / "kernel.py").read_text() == kernel(3)
    assert "Person: good." in git(store.folder, "log", "-1", "--format=%b", "main")


def test_a_vetoed_candidate_is_kept_and_moves_nothing(store: SessionStore) -> None:
    store.decide(3, Decision(answer=Answer.VETOED, by="person", reason="unreadable"))
    assert (store.overview().main, store.overview().best) == (1, 1)
    assert store.transition(3).decision.reason == "unreadable"


def test_a_late_answer_changes_nothing(store: SessionStore) -> None:
    no = Decision(answer=Answer.VETOED, by="person")
    store.decide(3, no)
    for number in (1, 3, 9):
        with pytest.raises(WorkbenchError, match=f"v{number} does not wait"):
            store.decide(number, Decision(answer=Answer.ACCEPTED, by="person"))
    assert store.transition(3).decision == no


def test_a_number_is_recorded_once(store: SessionStore) -> None:
    before = git(store.folder, "for-each-ref")
    with pytest.raises(WorkbenchError, match="the session changed in the meantime"):
        store.record(transition(1, 0), "other\n")
    with pytest.raises(WorkbenchError, match="the session changed in the meantime"):
        store.record(transition(3, 1), "other\n")
    with pytest.raises(WorkbenchError, match="the session changed in the meantime"):
        store.record_pending(transition(2, 1, Answer.PENDING), "other\n")
    assert git(store.folder, "for-each-ref") == before


@pytest.mark.parametrize("parent", [3, 7, 4])
def test_a_parent_must_be_a_decided_version(store: SessionStore, parent: int) -> None:
    with pytest.raises(WorkbenchError, match=f"names v{parent} as its parent"):
        store.record(transition(4, parent), kernel(4))


def test_a_parent_is_older_than_what_was_made_from_it(store: SessionStore) -> None:
    store.record(transition(6, 1), kernel(6))
    with pytest.raises(WorkbenchError, match="names v6 as its parent"):
        store.record(transition(5, 6), kernel(5))


def test_a_version_that_is_not_there_is_said_so(store: SessionStore) -> None:
    for read in (store.transition, store.source, store.commit_of):
        with pytest.raises(WorkbenchError, match="the session has no version v9"):
            read(9)


def test_settings_can_grow_without_a_commit_of_their_own(store: SessionStore) -> None:
    more = msgspec.structs.replace(settings("softmax-1"), budget=Budget(steps=50))
    store.save_settings(more)
    assert SessionStore.open(store.folder).settings() == more
    assert len(store.summaries()) == 4
    store.record(transition(4, 1), kernel(4))
    assert "steps = 50" in (store.folder / "session.toml").read_text()


def test_packing_changes_nothing_that_is_read(store: SessionStore) -> None:
    before = store.overview()
    store.tidy()
    git(store.folder, "gc", "--quiet", "--prune=now")
    assert store.overview() == before
    store.decide(3, Decision(answer=Answer.ACCEPTED, by="person"))
    assert store.overview().main == 3
    assert store.source(2) == kernel(2)


# Names


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "a/b", "../a", "/a", "A", "-a", ".a", "a b", "a\n", "a" * 65, "a..b", "a.lock",
     "a.git", "a.", "é", "a\0b"],
)  # fmt: skip
def test_a_name_cannot_leave_its_folder(name: str) -> None:
    with pytest.raises(WorkbenchError, match="cannot be a session's name"):
        check_name(name)


@given(st.text(max_size=80), st.integers(0, 3))
def test_a_fresh_name_is_always_lawful_and_new(problem: str, there: int) -> None:
    with TemporaryDirectory() as place:
        folder = Path(place)
        for _ in range(there):
            (folder / fresh_name(problem, folder)).mkdir()
        name = fresh_name(problem, folder)
    assert check_name(name) == name
    assert name.endswith(f"-{there + 1}")


def test_fresh_names_count_on(tmp_path: Path) -> None:
    assert fresh_name("Softmax", tmp_path) == "softmax-1"
    new_store(tmp_path, "softmax-1")
    new_store(tmp_path, "softmax-9")
    (tmp_path / "softmax-11").mkdir()
    (tmp_path / ".hidden").mkdir()
    assert fresh_name("softmax", tmp_path) == "softmax-12"
    assert session_names(tmp_path) == ("softmax-1", "softmax-9")
    assert session_names(tmp_path / "nowhere") == ()
