"""The smoke rung is used where it spares more than it takes, and the reason is told."""

from pathlib import Path

import pytest
from msgspec import Struct, structs

from workbench.search.ladder import LadderFile, load_ladder, shipped_ladder
from workbench.search.paying import worth

SHIPPED = shipped_ladder()
COMPARES = structs.replace(SHIPPED.rung["bench"], pairs_first=False)
FILE = structs.replace(SHIPPED, rung={**SHIPPED.rung, "bench": COMPARES})
"""Whose bench compares before it times."""


class Cost(Struct, frozen=True, kw_only=True):
    """What one candidate cost at one rung."""

    rung: str
    gpu_seconds: float
    wall_seconds: float = 0.0
    high: float | None = None


def used(word: str) -> LadderFile:
    """The shipped ladder with another `use` of smoke."""
    smoke = structs.replace(FILE.rung["smoke"], use=word)
    return structs.replace(FILE, rung={**FILE.rung, "smoke": smoke})


def bench(seconds: float, *, slow: bool) -> Cost:
    return Cost(rung="bench", gpu_seconds=seconds, high=0.9 if slow else 1.2)


def test_it_pays_where_slow_candidates_are_dear_at_bench_and_cheap_at_smoke() -> None:
    cheap = [Cost(rung="smoke", gpu_seconds=1.0)] * 9
    told = worth([*cheap, *[bench(20.0, slow=True)] * 3, bench(20.0, slow=False)], FILE)
    assert told.pays
    assert told.reason == "it takes 1.0 GPU-s of each and spares 15.0 (3 of 4 were slow at bench)"


@pytest.mark.parametrize(
    "history",
    [
        [],
        [bench(20.0, slow=True)] * 2,
        [bench(FILE.rung["smoke"].gpu.value, slow=True)] * 9,
        [bench(200.0, slow=False)] * 9,
    ],
)
def test_it_is_left_out_where_it_spares_no_more_than_it_takes(history: list[Cost]) -> None:
    """Nothing known, a slow one as cheap at bench, or none slow."""
    told = worth(history, FILE)
    assert not told.pays
    assert told.reason.startswith("not asked: ")


def test_it_is_never_asked_before_a_bench_that_begins_with_the_same_pairs() -> None:
    """However dear that is; a person's word is another matter."""
    told = worth([bench(200.0, slow=True)] * 9, SHIPPED)
    assert (told.pays, told.reason) == (False, "not asked: bench begins with the very same pairs")
    smoke = structs.replace(SHIPPED.rung["smoke"], pairs_first=False)
    compares = structs.replace(SHIPPED, rung={**SHIPPED.rung, "smoke": smoke})
    assert worth([bench(200.0, slow=True)] * 9, compares).pays


def test_a_persons_word_stands_above_the_costs(tmp_path: Path) -> None:
    own = tmp_path / "ladder.toml"
    own.write_text('[rung.smoke]\nuse = "always"\n')
    assert worth([], load_ladder(own)).pays
    dear = [Cost(rung="smoke", gpu_seconds=0.1), *[bench(99.0, slow=True)] * 9]
    assert worth(dear, FILE).pays
    assert not worth(dear, used("never")).pays


def test_three_candidates_at_bench_are_enough_and_only_the_newest_count() -> None:
    cheap = Cost(rung="smoke", gpu_seconds=1.0)
    slow = [bench(20.0, slow=True)] * 3
    assert not worth([cheap, *slow[:2]], FILE).pays
    assert worth([cheap, *slow], FILE).pays
    newest = [bench(20.0, slow=False)] * int(FILE.search.price_memory.value)
    assert not worth([cheap, *slow * 9, *newest], FILE).pays, "none of the newest was slow"


def test_slow_is_what_smoke_would_have_given_up() -> None:
    """Under smoke's own bound, not under the gain that bench asks for."""
    smoke = FILE.rung["smoke"]
    between = (smoke.prune_below.value + smoke.promote_above.value) / 2
    no_gain = [Cost(rung="bench", gpu_seconds=99.0, high=between)] * 9
    assert not worth([Cost(rung="smoke", gpu_seconds=1.0), *no_gain], FILE).pays
