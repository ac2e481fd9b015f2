"""A planner that invents: numbers, units, rounding and readings that its prompt does not hold."""

import pytest
from agents_kit import plan_reply, situation

from workbench.agents.claims import quantities, unsupported
from workbench.agents.reply_records import HandedBack
from workbench.agents.roles import planner
from workbench.skills.records import Plan


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    return situation(tmp_path_factory.mktemp("cards"))


def cites(fact: str, value: object) -> dict:
    return {"evidence": [{"fact": fact, "value": value}]}


def says(text: str) -> dict:
    return {"modification": f"fold the maximum and the sum into one loop, {text}"}


INVENTED = {
    "another count": cites("launch.num_warps", 5),
    "a count almost right": cites("loop.extent", 98300),
    "a large count within a thousandth": cites("loop.extent_bytes", 393200),
    "a count with a fraction": cites("launch.num_warps", 4.001),
    "rounded to one digit": cites("launch.waves", 2),
    "rounded to three digits": cites("launch.waves", 1.93),
    "one digit off at the end": cites("launch.waves", 1.94),
    "percent for a share": cites("launch.tail", 3.03),
    "percent in words for a share": cites("launch.tail", "3.03 %"),
    "another unit": cites("arg.alignment_min", "256 KB"),
    "a unit where there is none": cites("loop.trip_count", "96 us"),
    "kilobytes as bytes": cites("loop.extent_bytes", 384),
    "a number in words": cites("launch.num_warps", "four"),
    "about the number": cites("launch.num_warps", "about 4"),
    "a range": cites("launch.num_warps", "4 to 8"),
    "a comparison": cites("launch.num_warps", ">= 4"),
    "a list": {"evidence": [{"fact": "launch.num_warps", "value": [4]}]},
    "no value": cites("launch.num_warps", None),
    "not a number": cites("launch.waves", "nan"),
    "without end": cites("launch.waves", "inf"),
    "a negative zero for a count": cites("launch.num_warps", -4),
    "yes for a number": cites("code.loop_count", True),
    "a number for yes": cites("code.has_mask", 1),
    "an unknown fact": cites("profile.dram_pct", 80),
    "a fact of nobody": cites("profile.l3_pct", 12),
    "a fact in other letters": cites("Launch.Num_Warps", 4),
    "its value in the name": cites("launch.num_warps = 4", 4),
    "a true fact and a false one": {
        "evidence": [
            {"fact": "launch.num_warps", "value": 4},
            {"fact": "loop.trip_count", "value": 97},
        ]
    },
    "a false fact to rule out": {
        "ruled_out": {"bottleneck": "divergence", "fact": "launch.waves", "value": 19.39}
    },
    "a share in a sentence": says("since DRAM is busy for 93 % of the time"),
    "a share in words": says("since DRAM is busy for ninety percent of the time"),
    "a predicted share": says("which saves 37% of the time"),
    "a time in a sentence": says("which takes 412 us now"),
    "a time in another unit": says("since it takes 1500 ms now"),
    "a rate in a sentence": says("since it reads only 1.2 TB/s"),
    "a speedup in a sentence": says("which makes it 3.7x faster"),
    "a speedup as a difference": {"difference": "two accumulators: 2.4 times faster"},
    "a share, abbreviated": says("since DRAM is busy for 93 pct of the time"),
    "a share in points": says("which takes 93 percentage points off"),
    "a share in hyphens": says("since 40 per-cent of it waits"),
    "a share in wide letters": says("since 40\uff05 of it waits"),
    "a share with Markdown's escape": says("since 93 \\% of it waits"),
    "a share as a decimal": says("since it reaches 0.93 of the peak"),
    "a share as a fraction": says("since three quarters of the time is spent there"),
    "half of the time": says("since half of the time is spent there"),
    "all of it, in words": says("since one hundred percent of it waits"),
    "eleven, in words": says("since eleven percent of it waits"),
    "seconds": says("since it takes 2 s now"),
    "seconds in words": says("since it takes 2 seconds now"),
    "microseconds, abbreviated": says("since it takes 412 microsecs now"),
    "a wait in cycles": says("since it waits for 600 cycles"),
    "a small rate": says("since it reads 4 MB/s"),
    "a rate in bits": says("since it reads 300 Gbit/s"),
    "a rate in words": says("since it reads 3.35 terabytes per second"),
    "a rate a second": says("since it reads 512 GB a second"),
    "a rate of products": says("since it computes 989 TFLOPS"),
    "a ratio alone": says("for up to 1.8x"),
    "a ratio with a sign": says("for a gain of 1.8\u00d7"),
    "a fold": says("for a 1.8-fold gain"),
    "a speedup without a sign": says("for a speedup of 1.8"),
    "twice as fast": says("which is twice as fast"),
    "half the time": says("which halves the time"),
    "double the throughput": says("which doubles the throughput"),
    "a share as a metric": {
        "expected": [
            {"metric": "time by 40 %", "direction": "down"},
            {"metric": "loads", "direction": "down"},
        ]
    },
    "a bottleneck that the policy did not find": {"bottleneck": "launch_overhead"},
    "another headroom": {"headroom": "low"},
    "a predicate that is open": {"statement": "sm_cold"},
    "a predicate that does not hold": {"statement": "memory_not_dominant"},
}


@pytest.mark.parametrize("changes", INVENTED.values(), ids=INVENTED)
def test_a_plan_with_an_invented_claim_is_handed_back(now, changes):
    found = planner.read(plan_reply(now, **changes), now)
    assert isinstance(found, HandedBack)
    assert found.code in {"claims", "form"}


BORNE_OUT = {
    "a count": cites("launch.num_warps", 4),
    "a count as text": cites("launch.num_warps", "4"),
    "a count with its unit": cites("launch.num_warps", "4 warps"),
    "a count as a float": cites("launch.num_warps", 4.0),
    "a float as shown": cites("launch.waves", 1.939),
    "bytes with their unit": cites("loop.extent_bytes", "393216 B"),
    "the model's share": says("since dram is 80% of all parts"),
    "the time that was shown": says("which takes 1500 us now"),
    "the time, to more digits": says("which takes 1500.00 us now"),
    "a size": says("with loads of 128 bytes and tiles of 16 KB"),
    "counts to choose": says("with BLOCK=2048, 8 warps and a loop of 4x unrolled steps"),
    "the policy's limit": {"bottleneck": "dram-bound"},
    "no headroom": {"headroom": ""},
    "half of a size": says("with half of the row in registers and a third of the block"),
    "a factor of a size": says("with a loop that is unrolled by a factor of 4"),
    "sizes that are times something": says("with 2 times as many rows a program"),
}


@pytest.mark.parametrize("changes", BORNE_OUT.values(), ids=BORNE_OUT)
def test_a_plan_whose_claims_stand_in_its_prompt_is_taken(now, changes):
    found = planner.read(plan_reply(now, **changes), now)
    assert isinstance(found, Plan), found


def test_a_quantity_is_one_with_its_unit_and_its_digits():
    shown = quantities("dram_pct = 80.6 %, time 1,500.25 us, 1.2x faster")
    assert unsupported("81 %, 80.6 percent, 1500.2 us, 1.2 times faster", shown) == []
    assert unsupported("80 %, 80.64 %, 1500 ms, 1.3x faster", shown) == [
        "80 %",
        "80.64 %",
        "1500 ms",
        "1.3x",
    ]
    assert quantities("BLOCK_M=128, v2, 16 KB, 4x unrolled, 3 stages, x1.5, sm90") == []
