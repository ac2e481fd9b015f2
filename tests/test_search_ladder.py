"""The ladder as a file: what a person may change, and what a wrong line is told."""

from pathlib import Path

import pytest

from workbench.errors import WorkbenchError
from workbench.search.ladder import YOURS, LadderFile, Number, load_ladder, shipped_ladder
from workbench.search.rungs import Ladder


def written(folder: Path, text: str) -> Path:
    """A person's file."""
    path = folder / "ladder.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_number_of_the_shipped_ladder_says_where_it_comes_from() -> None:
    """Four rungs, each dearer than the one below."""
    rungs = Ladder(shipped_ladder()).rungs
    assert [rung.name for rung in rungs] == ["static", "smoke", "bench", "profile"]
    assert [rung.spec.gate for rung in rungs] == [0, 1, 2, 3]
    prices = [rung.spec.gpu.value for rung in rungs]
    assert prices == sorted(prices)
    for spec in (*(rung.spec for rung in rungs), shipped_ladder().search):
        numbers = [getattr(spec, name) for name in spec.__struct_fields__]
        assert all(one.source for one in numbers if isinstance(one, Number))


def test_a_person_changes_one_number_and_leaves_the_rest(tmp_path: Path) -> None:
    """A bare number is theirs, and says so."""
    file = load_ladder(written(tmp_path, "[rung.smoke]\npairs = 30\n[search]\nlines = 3\n"))
    assert file.rung["smoke"].pairs == Number(value=30, source=YOURS)
    assert file.search.lines.value == 3
    assert file.rung["bench"] == shipped_ladder().rung["bench"]


def test_without_a_file_the_shipped_ladder_holds(tmp_path: Path) -> None:
    """As on a new machine."""
    assert load_ladder(tmp_path / "ladder.toml") == shipped_ladder()


def test_the_settings_folder_is_where_it_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`$XDG_CONFIG_HOME/workbench/ladder.toml`."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "workbench").mkdir()
    written(tmp_path / "workbench", "[search]\nnear_limit = 0.8\n")
    assert Ladder.load().file.search.near_limit.value == 0.8


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rung = ", "cannot be read"),
        ("[rung.smok]\npairs = 3\n", "`rung.smok` is not a part of the ladder"),
        ("[rung.smoke]\npair = 3\n", "`rung.smoke.pair` is not a part of the ladder"),
        ("[rung]\nsmoke = 3\n", "`rung.smoke = 3` is not a table"),
        ("[rung.smoke]\npairs = -3\n", "`rung.smoke.pairs = -3`: Expected"),
        ('[rung.smoke]\npairs = "many"\n', "`rung.smoke.pairs = 'many'`: Expected"),
        ("[rung.smoke]\npairs = nan\n", "`rung.smoke.pairs = nan`: Expected"),
        ("[rung.smoke]\npairs = 0\n", "`rung.smoke.pairs = 0`: expected at least 1"),
        ("[rung.bench]\npairs = inf\n", "`rung.bench.pairs = inf`: expected a whole number"),
        ("[search]\nlines = 2.5\n", "`search.lines = 2.5`: expected a whole number, at least 1"),
        ("[search]\nplateau_rounds = inf\n", "expected a whole number, at least 0"),
        ("[search]\nmodel_doubt = 0.5\n", "`search.model_doubt = 0.5`: expected at least 1"),
        ("[search]\nlast_look = inf\n", "`search.last_look = inf`: expected a finite number"),
        ('[rung.smoke]\nuse = "now"\n', "`rung.smoke.use = 'now'`: expected one of always, never"),
        ("[rung.smoke]\ngate = 7\n", "`rung.smoke.gate = 7`: expected one of 0, 1, 2, 3"),
        ("[rung.smoke]\nprune_below = 1.5\n", "is above `promote_above`"),
        ('[search]\nlines = { value = 2, because = "x" }\n', "not a part of the ladder"),
    ],
)
def test_a_wrong_line_is_told_with_file_key_and_value(tmp_path: Path, text: str, says: str) -> None:
    """Never a traceback, never a silent default."""
    path = written(tmp_path, text)
    with pytest.raises(WorkbenchError) as raised:
        load_ladder(path)
    assert says in raised.value.what
    assert raised.value.where == str(path)


def test_a_near_miss_is_named(tmp_path: Path) -> None:
    """Whoever mistypes is told what there is."""
    with pytest.raises(WorkbenchError) as raised:
        load_ladder(written(tmp_path, "[search]\nplateau_round = 3\n"))
    assert raised.value.todo == "the nearest is `search.plateau_rounds`"


def test_without_a_gpu_the_rungs_that_need_none_are_left() -> None:
    """The ladder then ends with what the interpreter can tell."""
    left: LadderFile = Ladder(shipped_ladder()).without_gpu().file
    assert list(left.rung) == ["static", "smoke"]
