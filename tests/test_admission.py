"""Cards tried alone: on which grounds, in one leap, without parts of what they say, and again."""

from pathlib import Path

import pytest
from engine_parts import report
from msgspec import structs

from workbench.bench.leaps import Ground, leap, ordered
from workbench.bench.roundtrip import WITHOUT, stripped
from workbench.engine.chances import Chance, Finder, chance_of, ground_named, nearest
from workbench.engine.grounds import ground_of
from workbench.engine.sessions import import_file
from workbench.engine.trials import Where
from workbench.engine.verifying import Standing, verify_card
from workbench.errors import WorkbenchError
from workbench.gate.records import Verdict
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.target import target
from workbench.problems.load import load_problem
from workbench.skills.card import parse_card
from workbench.skills.library import Library
from workbench.skills.records import Admission, EvidenceRow

SEED = load_problem("top_k_unsorted").seed.read_text()


def card(name, edit, order=50, grid="", extra=""):
    return parse_card(
        f"""
id = "{name}"
title = "{name}"
intent = "Faster."
anchor = "where the edit fits"
order = {order}
{extra}
[carrier]
edit = "{edit}"
{"[carrier.grid]" if grid else ""}
{grid}
[[evidence]]
session = "s"
commit = "c"
device = "sm90"
kind = "modeled"
verdict = "accepted"
problem = "top_k_unsorted"
family = "sort"
""",
        Path(f"{name}.toml"),
    )


LOOKS = card("two-bits", "two-bits-a-look", order=20)
EXIT = card("early-exit", "stop-when-settled", order=80)
WARPS = card("warps", "num-warps", order=10, grid="value = [8, 16]")


class Looked:
    """The CPU path by the words of a kernel: 16 warps are fastest, a wrong word is refused."""

    def __init__(self, wrong=""):
        self.wrong = wrong
        self.seen = []

    def __call__(self, source, *, timed=False):
        del timed
        self.seen.append(source)
        bad = self.wrong and self.wrong in source
        verdict = Verdict.REJECTED if bad else Verdict.ACCEPTED
        said = report(microseconds=5.0 if "num_warps=16" in source else 9.0, verdict=verdict)
        return structs.replace(said, launches=(), traces=())


def ground(*skills, wrong="", **more):
    library = Library({s.card.id: s for s in skills}, pinned=frozenset(s.card.id for s in skills))
    return Ground(
        library=library,
        look=Looked(wrong),
        target=target("sm90"),
        problem="top_k_unsorted",
        family="sort",
        precision="ieee",
        **more,
    )


def test_a_leap_carries_out_every_card_once_in_the_order_of_the_lineages():
    made = leap(ground(EXIT, LOOKS, WARPS), SEED, 1, 15)
    assert made.taken == tuple(f"{i} on top_k_kernel" for i in ("warps", "two-bits", "early-exit"))
    assert "num_warps=16" in made.source  # the value whose modeled time was least
    assert "while bit >= 0:" in made.source
    assert made.tried == 4  # both values of the first card
    by_hand = EDITS["num-warps"].apply(SEED, "top_k_kernel", {"value": 16}).source
    by_hand = EDITS["two-bits-a-look"].apply(by_hand, "top_k_kernel", {}).source
    assert made.source == EDITS["stop-when-settled"].apply(by_hand, "top_k_kernel", {}).source


def test_a_leap_stops_at_its_edits_and_goes_round_what_is_refused():
    assert leap(ground(WARPS, LOOKS), SEED, 1, 2).taken == ("warps on top_k_kernel",)
    made = leap(ground(WARPS, LOOKS, EXIT, wrong="range(30, -1, -2)"), SEED, 1, 15)
    assert made.taken == ("warps on top_k_kernel", "early-exit on top_k_kernel")
    assert made.refused[0].startswith("two-bits on top_k_kernel (")


def test_trials_after_the_first_take_an_order_of_their_own():
    close = [
        card(f"c{n}", edit, order=50 + n)
        for n, edit in enumerate(
            ("num-warps", "two-bits-a-look", "pack-scans", "stop-when-settled")
        )
    ]
    orders = {leap(ground(*close), SEED, number, 15).taken for number in range(1, 8)}
    assert len(orders) > 1
    again = {leap(ground(*close), SEED, 5, 15).taken for _ in range(3)}
    assert len(again) == 1


def test_a_leap_goes_the_way_of_a_lineage_and_leaves_the_other_cards():
    way = ("two-bits", "early-exit")
    made = leap(ground(WARPS, LOOKS, EXIT, way=way), SEED, 1, 15)
    assert made.taken == ("two-bits on top_k_kernel", "early-exit on top_k_kernel")
    assert made.idle == ()
    twice = leap(ground(WARPS, LOOKS, way=("two-bits", "two-bits")), SEED, 1, 15)
    assert twice.taken == ("two-bits on top_k_kernel",)
    assert twice.idle == ("two-bits",)


def test_in_every_order_what_a_card_requires_is_put_in_first():
    first = card("looks", "two-bits-a-look", order=90, extra='provides = ["looks"]')
    then = card("exit", "stop-when-settled", order=10, extra='requires = ["looks"]')
    for number in range(1, 6):
        assert ordered(ground(first, then), number) == ["looks", "exit"]
    # A plain list of tricks knows nothing of that.
    orders = {tuple(ordered(ground(first, then, ordered=False), n)) for n in range(1, 9)}
    assert len(orders) == 2


def test_a_leap_takes_the_value_that_was_seen_nearest_and_asks_no_model_for_it():
    seen = EvidenceRow(
        session="s",
        commit="c",
        device="sm90",
        kind="measured",
        verdict="accepted",
        problem="top_k_unsorted",
        family="sort",
        parameters={"value": 8},
    )
    far = structs.replace(seen, problem="gemm", family="gemm", parameters={"value": 16})
    known = structs.replace(WARPS, card=structs.replace(WARPS.card, evidence=(far, seen)))
    made = leap(ground(known), SEED, 1, 15)
    assert (made.tried, "num_warps=8" in made.source) == (1, True)
    bare = leap(ground(stripped(known, "bare")), SEED, 1, 15)
    assert (bare.tried, "num_warps=16" in bare.source) == (2, True)


@pytest.mark.parametrize("part", WITHOUT)
def test_an_ablation_takes_one_part_from_a_card_and_leaves_the_others(part):
    whole = card(
        "blocks",
        "block-size",
        grid='block = ["BLOCK_N"]\nvalue = [64]',
        extra="precondition = [{ says = 'long', when = 'loop.trip_count >= 8',"
        " category = 'pipeline' }]\n"
        "risk = [{ says = 'spills', when = 'static.registers > 200', seen = 's@1' }]",
    )
    less = stripped(whole, WITHOUT[part])
    gone = {
        "conditions": not less.card.precondition and not less.preconditions,
        "anchors": "block" not in less.card.carrier.grid and not less.card.anchor,
        "risks": not less.card.risk and not less.risks,
    }
    assert gone == {name: part in {name, "all"} for name in gone}
    assert less.card.carrier.grid["value"] == (64,)


def grounds_for(skill):
    return [one.ground for one in Finder().chances(skill).found]


def test_a_card_is_held_out_on_kernels_of_problems_that_it_has_no_evidence_from():
    piped = card("pipelined", "num-stages", grid="value = [3]")
    found = grounds_for(piped)
    names = {ground.name for ground in found}
    assert {"linear_relu_div", "conv2d/expert-without-pipelined-loads"} <= names
    assert not any(ground.problem == "top_k_unsorted" for ground in found)
    # One more kernel has that search.
    assert [one.name for one in grounds_for(LOOKS)] == ["top_k/select_then_order"]
    for ground in found[:4]:
        assert ground_of(ground.name) == ground
        assert isinstance(chance_of(piped, ground, ""), Chance)


def test_a_card_is_tried_after_another_one_whose_step_alone_makes_a_place_for_it():
    packed = card("packed", "pack-counts")
    nowhere = Finder().chances(packed)
    assert nowhere.found == ()
    assert {one.why for one in nowhere.passed} == {"nothing in the kernel has the form it needs"}
    (found,) = Finder([packed, LOOKS, WARPS]).chances(packed).found
    assert found.ground.name == "top_k/select_then_order+two-bits"
    assert "third" in found.ground.source
    assert ground_named(found.ground.name, [LOOKS]) == found.ground
    with pytest.raises(WorkbenchError, match="no card `two-bits`"):
        ground_named(found.ground.name)


def test_a_condition_that_does_not_hold_is_told_with_the_value_it_was_judged_by():
    when = "{ says = 'many loops', when = 'code.loop_count >= 9', category = 'pipeline' }"
    many = card("many", "num-stages", grid="value = [4]", extra=f"precondition = [{when}]")
    assert chance_of(many, ground_of("gemm"), "") == (
        "`code.loop_count >= 9` does not hold, 1 >= 9 -> no (many loops)"
    )


def test_a_value_that_goes_another_way_than_every_recorded_one_is_not_tried():
    row = EvidenceRow(
        session="s",
        commit="c",
        device="sm90",
        kind="measured",
        verdict="accepted",
        problem="top_k_unsorted",
        parameters={"value": 3},
        was={"value": 1},
    )
    piped = card("pipelined", "num-stages", grid="value = [2, 3]")
    deeper = structs.replace(piped, card=structs.replace(piped.card, evidence=(row,)))
    ground = ground_of("group_conv")
    assert EDITS["num-stages"].anchors(ground.source, "group_conv_kernel")[0].current["value"] == 3
    assert chance_of(piped, ground, "").step.plan.parameters == {"value": 2}
    assert "the way of the recorded steps" in chance_of(deeper, ground, "")
    found = chance_of(deeper, ground_of("linear_relu_div"), "")
    assert found.step.plan.parameters == {"value": 3}


def test_the_value_that_was_kept_nearest_is_taken_first():
    def row(problem, family, value, verdict="accepted"):
        return EvidenceRow(
            session="s",
            commit=f"{problem}{value}",
            device="sm90",
            kind="measured",
            verdict=verdict,
            problem=problem,
            family=family,
            parameters={"value": value},
        )

    rows = (row("gemm", "gemm", 8), row("fmha", "attention", 2), row("gelu", "gemm", 4, "rejected"))
    wide = card("warps", "num-warps", grid="value = [8, 4, 2]")
    wide = structs.replace(wide, card=structs.replace(wide.card, evidence=rows))

    def order(problem, family):
        return nearest(wide, problem, family).card.carrier.grid["value"]

    assert order("fmha", "attention") == order("sdp_attention", "attention") == (2, 8, 4)
    assert order("linear_relu_div", "gemm") == order("top_k", "sort") == (8, 4, 2)


def test_a_ground_that_is_not_shipped_is_refused_by_name():
    with pytest.raises(WorkbenchError, match="gelu ships no kernel 'gone'"):
        ground_of("gelu/gone")


def test_what_a_card_requires_is_tried_with_it_where_its_provider_is_at_hand():
    first = card("looks", "two-bits-a-look", extra='provides = ["looks"]')
    then = card("exit", "stop-when-settled", extra='requires = ["looks"]')
    ground = ground_of("top_k_unsorted")
    (alone_, with_) = (chance_of(then, ground, "sort", here).step for here in ((), (first, then)))
    assert (alone_.plan.first, with_.plan.first) == ((), ("looks",))
    assert alone_.source != with_.source


def test_a_trial_that_cannot_be_repeated_here_is_told_and_hides_no_other(tmp_path):
    shipped = Path(__file__).parent.parent / "sessions" / "gdn-lineage.bundle"
    import_file(shipped, tmp_path, "")
    trial = Admission(
        target="v1 of gone on cpu",
        held_out=False,
        accepted=True,
        effect_observed=True,
        session="gone",
        commit="abc",
    )
    trials = (
        trial,
        structs.replace(trial, target="gelu/gone on cpu", held_out=True),
        structs.replace(trial, target="v1 of gdn-lineage on cpu", session="gdn-lineage"),
    )
    tried = structs.replace(LOOKS, card=structs.replace(LOOKS.card, admission=trials))
    claims = list(verify_card(tried, Where(device="cpu", target="", sessions=tmp_path), print))
    assert {one.standing for one in claims} == {Standing.NOT_CHECKED}
    assert [one.says.partition(": ")[2] for one in claims] == [
        "the lineage gone is not here",
        "gelu ships no kernel 'gone'",
        "the lineage gdn-lineage that is here has no step abc of this card",
    ]
