"""A planner that invents: numbers, units, rounding and readings that its prompt does not hold."""

import pytest
from agents_kit import plan_reply, situation
from hypothesis import given
from hypothesis import strategies as st

from workbench.agents.claims import quantities, shown_quantities, unsupported
from workbench.agents.claims_words import number
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
    "a share of the time in the prompt, as a saving": says("which saves 80 % of the time"),
    "the time itself, as a saving": says("which saves 1500 us"),
    "points that equal a share": says("which takes 80 percentage points off"),
    "a fact with another value": says("since launch.waves is 19.39"),
    "a fact that is unknown": says("since profile.dram_pct is 93"),
    "instructions a cycle": says("since IPC is 0.4 only"),
    "registers that it uses": says("since it already uses 128 registers a thread"),
    "what is spilled": says("since 44 bytes are spilled per thread"),
    "waves that it has": says("because the launch has 7 waves"),
    "programs that run": says("because only 12 programs run"),
    "a clock": says("since the clock is at 1.2 GHz"),
    "power": says("since it draws 690 watts"),
    "gigabytes": says("since it moves 900 GB"),
    "passes over DRAM, in words": says("since the row is read five times from DRAM"),
    "minutes": says("since it takes 2 minutes"),
    "a per mille": says("since 300 \u2030 of it waits"),
    "clocks": says("since every load costs 600 clks"),
    "a sign before a ratio": says("making it x5 faster"),
    "faster by half": says("making it faster by half"),
    "conflicts": says("since there are 4096 bank conflicts"),
    "so many out of so many": says("because 7 out of 10 warps stall on memory"),
    "a time in raised digits": says("since it runs at 10\u00b2 us"),
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
    "the share in words": says("since dram is eighty percent of all parts"),
    "a fact with its value": says("since launch.waves is 1.939 and launch.num_warps is four"),
    "a fact that is set anew": says("raise launch.num_warps to 8"),
    "registers as they are": says("since it uses 32 registers a thread"),
    "waves and programs to choose": says("so that 132 programs make one wave, two an SM"),
    "half of a size": says("with half of the row in registers and a third of the block"),
    "a factor of a size": says("with a loop that is unrolled by a factor of 4"),
    "sizes that are times something": says("with 2 times as many rows a program"),
}


@pytest.mark.parametrize("changes", BORNE_OUT.values(), ids=BORNE_OUT)
def test_a_plan_whose_claims_stand_in_its_prompt_is_taken(now, changes):
    found = planner.read(plan_reply(now, **changes), now)
    assert isinstance(found, Plan), found


# What a sentence may not say, where nothing was shown; and what it may. Each is one claim.
CLAIMS = """
cuts the traffic by a factor of 3
reduces DRAM traffic by a factor of three
improves it by a factor of 2
speeds it up by a factor of 1.5
the run time shrinks by a factor of 2
cuts DRAM bytes by 2x
latency down by a factor of four
halves the traffic
halving the global memory traffic
to halve its DRAM traffic
doubles the occupancy
quadruples the bandwidth
the traffic is halved
occupancy doubles
saves 20 percentage points
saves twenty percentage points
saves 20 points
for 20 pp less
three times less traffic
3x less traffic
reads 3x less from DRAM
three times the bandwidth
the bandwidth goes up 3x
traffic drops threefold
a 3-fold reduction of the traffic
twice the throughput
half as much traffic
cuts the time in half
lowers latency by a third
traffic falls by two thirds
saves a third.
two thirds of the DRAM traffic
3/4 of the time
eliminates half the memory accesses
an order of magnitude faster
reduces the time by an order of magnitude
traffic of 805 MB
moves 3.2 GB of DRAM traffic
20 % faster
saves eighty percent
twenty-four percent of the time
takes four hundred us
takes forty milliseconds
occupancy of 0.25
an L2 hit rate of 92
hit rate climbs to 0.95
1,8x faster
a 40-percent saving
""".strip().splitlines()
LAWFUL = """
unroll the loop by a factor of 4
unrolled by a factor of four to hide latency
to reduce latency unroll the loop by a factor of 4
hides latency by 4x unrolling
hide latency with a 4-fold unrolled loop
double BLOCK_N
double the tile to raise throughput
doubling the number of warps so that the latency is hidden
halve the tile's width and keep the bandwidth
twice as many rows a program
increase the rows a program handles by a factor of 4 to save traffic
reduce the number of programs by a factor of 4
load each row once instead of three times
load x three times fewer: only once
issue one load and one second pass
two points: first the mask, then the sum
one load per cycle
halve the time dimension
the mask is true half of the time steps
doubles the bytes per load
twice the bytes per thread
16-byte vector loads, twice as wide as now
scale by a factor of 0.125
apply the correction factor of alpha to the accumulator
cut one of the three passes, which lowers the traffic
split the row in two halves
a quarter of the threads idle
the row fits in half of the register file
keep twice as many loads in flight
stage the tile in shared memory (32 KB)
the working set of 12 MB fits in L2
walk K in steps of 64 instead of 32
2 CTAs per SM, 8 warps each
the cost of two divisions
v2 beat v1 in time
divide the 98304 columns into 96 blocks of 1024
""".strip().splitlines()


@pytest.mark.parametrize("text", CLAIMS)
def test_what_only_a_profile_tells_is_a_claim_in_digits_or_words(text):
    assert unsupported(text, [])
    assert unsupported(text, shown_quantities(text)) == [], "who shows it may be quoted"


@pytest.mark.parametrize("text", LAWFUL)
def test_what_a_plan_chooses_or_counts_is_no_claim(text):
    assert unsupported(text, []) == []


_MEASURES = ["traffic", "DRAM traffic", "bandwidth", "latency", "occupancy", "throughput"]
_SIZES = ["the block", "num_warps", "BLOCK_M", "the number of stages", "the rows of a program"]
_ABOUT = st.sampled_from(["", "about ", "up to ", "roughly "])


@given(st.sampled_from(_MEASURES), st.integers(2, 99), st.integers(2, 99), _ABOUT, st.booleans())
def test_a_factor_of_a_measure_is_held_to_the_number_that_was_shown(
    measure, said, true, about, word
):
    value = in_words(said) if word else said
    shown = shown_quantities(f"reduces the {measure} by a factor of {true}")
    held = unsupported(f"reduces the {measure} by {about}a factor of {value}", shown)
    assert bool(held) == (said != true)
    other = unsupported(f"cuts the misses by {about}a factor of {value}", shown)
    assert other, "what was shown of another measure bears nothing out"


@given(st.sampled_from(_SIZES), st.integers(2, 99), st.booleans())
def test_a_factor_of_a_size_is_a_choice(size, factor, word):
    value = in_words(factor) if word else factor
    for text in (
        f"increase {size} by a factor of {value}",
        f"reduce {size} by a factor of {value} to lower the latency",
        f"make {size} {value}x larger",
    ):
        assert unsupported(text, []) == []


@given(st.integers(1, 99), st.integers(1, 99), st.booleans())
def test_a_saving_is_no_share_that_was_read(share, saved, word):
    shown = shown_quantities(f"dram is {share} % of all parts")
    value = in_words(saved) if word else saved
    assert bool(unsupported(f"dram is {value} percent", shown)) == (saved != share)
    assert unsupported(f"saves {value} percent", shown)
    assert unsupported(f"takes {value} percentage points off", shown)


@given(st.text(max_size=400))
def test_any_text_has_quantities_that_bear_themselves_out(text):
    assert unsupported(text, shown_quantities(text)) == []


@given(st.integers(1, 99_999))
def test_a_number_in_words_is_read_as_its_digits(value):
    assert number(f"{value:,}") == value
    if value < 100:
        assert number(in_words(value)) == value


def in_words(value: int) -> str:
    small = [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ]
    if value < 20:
        return small[value - 1]
    tens = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"][
        value // 10 - 2
    ]
    return f"{tens}-{small[value % 10 - 1]}" if value % 10 else tens


def test_a_quantity_is_one_with_its_unit_and_its_digits():
    shown = quantities("dram_pct = 80.6 %, time 1,500.25 us, 1.2x faster")
    assert unsupported("81 %, 80.6 percent, 1500.2 us, 1.2 times faster", shown) == []
    assert unsupported("80 %, 80.64 %, 1500 ms, 1.3x faster", shown) == [
        "80 %",
        "80.64 %",
        "1500 ms",
        "1.3x faster",
    ]
    assert quantities("BLOCK_M=128, v2, 16 KB, 4x unrolled, 3 stages, x1.5, sm90") == []
