"""Cards: what is shipped holds together, and what a person writes is checked to the key."""

import os
from pathlib import Path

import pytest

from workbench.errors import WorkbenchError
from workbench.kernels.edits.registry import EDITS
from workbench.paths import shipped
from workbench.skills.card import parse_card, read_card
from workbench.skills.card_faults import CardFault
from workbench.skills.library import lint_folder, load_library

GOOD = """\
id = "extra-warps"
title = "Extra warps"
intent = "Use more warps."
order = 7

[carrier]
edit = "num-warps"
grid = { value = [8, 16] }

[[precondition]]
says = "few registers"
when = "static.registers < 104"
category = "storage"
"""


def fault(tmp_path, text):
    with pytest.raises(CardFault) as caught:
        parse_card(text, tmp_path / "card.toml")
    assert str(tmp_path / "card.toml") in str(caught.value)
    return str(caught.value)


def write(folder, name, text):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)


def test_every_shipped_card_is_read_and_its_edit_exists(tmp_path):
    library = load_library(tmp_path)
    assert len(library.skills) >= 29
    assert {s.card.carrier.edit for s in library.skills.values()} <= {"", *EDITS}
    assert lint_folder(shipped("skills"), "shipped") == []


def test_a_shipped_card_states_its_conditions_effects_and_file_name(tmp_path):
    for card_id, skill in load_library(tmp_path).skills.items():
        assert skill.path.name == f"{card_id}.toml"
        assert skill.card.precondition, card_id
        assert skill.card.effect, card_id
        assert skill.card.anchor, card_id


def test_skills_come_in_the_order_of_their_techniques(tmp_path):
    ranks = [(s.card.order, i) for i, s in load_library(tmp_path).skills.items()]
    assert ranks == sorted(ranks)


def test_a_good_card_is_read(tmp_path):
    skill = parse_card(GOOD, tmp_path / "card.toml")
    assert skill.card.carrier.grid == {"value": (8, 16)}
    assert skill.preconditions[0].facts == ("static.registers",)
    assert skill.edit is EDITS["num-warps"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('title = "Extra warps"', "title = 5", "`title` = 5: expected `str`, got `int`"),
        ('title = "Extra warps"', 'titel = "x"', "`titel` = 'x': there is no such key"),
        ('title = "Extra warps"', 'titel = "x"', "the nearest is `title`"),
        ('title = "Extra warps"\n', "", "missing required field `title`"),
        ('title = "Extra warps"', 'title = " "', "`title` = ' ': must say something"),
        ('id = "extra-warps"', 'id = "Extra Warps"', "lower-case words joined by hyphens"),
        ('edit = "num-warps"', 'edit = "num-warp"', "there is no such edit"),
        ('edit = "num-warps"', 'edit = "num-warp"', "the nearest is `num-warps`"),
        ("value = [8, 16]", "warps = [8]", "the edit `num-warps` has no such parameter"),
        ("value = [8, 16]", "value = []", "must hold at least one value"),
        ("value = [8, 16]", "value = [true]", "`carrier.grid.value` = True: expected a whole"),
        ("value = [8, 16]", 'value = ["device.sm"]', "`device.sm` is not a fact"),
        ("value = [8, 16]", 'value = ["code.has_mask"]', "an expression of numbers"),
        ("static.registers <", "static.register <", "`precondition[0].when`"),
        ("static.registers <", "static.register <", "the nearest is `static.registers`"),
        ('category = "storage"', 'category = "speed"', "`precondition[0].category` = 'speed'"),
        ('category = "storage"', "", "missing required field `category`"),
        ('says = "few registers"', 'says = ""', "`precondition[0].says`"),
        ("order = 7", "order = 7 7", "is not TOML"),
        ("order = 7", 'methods = ["Launch_Tunning"]', "`methods[0]` = 'Launch_Tunning'"),
        ("order = 7", 'methods = ["Launch_Tunning"]', "the nearest is `Launch_Tuning`"),
        ('edit = "num-warps"\ngrid = { value = [8, 16] }', "", "needs an edit or a sketch"),
        ('edit = "num-warps"', 'sketch = "x"', "a sketch has no parameters"),
    ],
)
def test_a_wrong_card_names_the_key_the_value_and_what_was_expected(tmp_path, old, new, says):
    assert old in GOOD
    assert says in fault(tmp_path, GOOD.replace(old, new))


def test_a_wrong_key_inside_a_table_is_named_with_its_path(tmp_path):
    text = GOOD + '\n[[risk]]\nsays = "x"\nwhne = "code.has_mask"\n'
    assert "`risk[0].whne` = 'code.has_mask'" in fault(tmp_path, text)
    assert "the nearest is `when`" in fault(tmp_path, text)


def test_an_effect_whose_ends_are_swapped_is_told(tmp_path):
    text = GOOD + '\n[[effect]]\nmetric = "time"\ndirection = "down"\nlow = 2.0\nhigh = 1.0\n'
    assert "`effect[0].low` = 2.0: is above high, 1.0" in fault(tmp_path, text)


@pytest.mark.parametrize("value", ["nan", "inf", "-1.0", "0.0"])
def test_an_effect_that_is_no_ratio_is_told(tmp_path, value):
    text = GOOD + f'\n[[effect]]\nmetric = "time"\ndirection = "down"\nlow = {value}\n'
    assert "`effect[0].low`" in fault(tmp_path, text)
    assert "must be a ratio above zero" in fault(tmp_path, text)


def test_a_mark_of_the_encoding_before_a_card_is_no_fault(tmp_path):
    path = tmp_path / "marked.toml"
    path.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_card(path).card == parse_card(GOOD, path).card


def test_a_card_that_never_ends_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(CardFault, match="not a file"):
        read_card(tmp_path / "pipe.toml")


def test_a_file_that_is_not_utf8_is_told_with_its_line(tmp_path):
    path = tmp_path / "latin.toml"
    path.write_bytes(b'id = "x"\ntitle = "caf\xe9"\n')
    with pytest.raises(CardFault) as caught:
        read_card(path)
    assert "not UTF-8" in str(caught.value)
    assert "line 2" in str(caught.value)


def test_a_folder_of_that_name_is_told(tmp_path):
    (tmp_path / "own" / "odd.toml").mkdir(parents=True)
    with pytest.raises(CardFault, match="not a file"):
        load_library(tmp_path / "own")


def test_a_persons_card_stands_in_for_the_shipped_one(tmp_path):
    own = (shipped("skills") / "group-order.toml").read_text().replace("order = 50", "order = 1")
    write(tmp_path, "mine.toml", own)
    skill = load_library(tmp_path).skill("group-order")
    assert (skill.origin, skill.card.order) == ("user", 1)
    assert skill.replaces == shipped("skills") / "group-order.toml"


def test_a_persons_cards_are_found_in_the_settings(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    write(tmp_path / "workbench" / "skills", "extra.toml", GOOD)
    assert load_library().skill("extra-warps").origin == "user"


def test_two_cards_of_one_id_must_be_the_same(tmp_path):
    write(tmp_path, "a.toml", GOOD)
    write(tmp_path, "b.toml", GOOD + "\n# the same but for this comment\n")
    assert "extra-warps" in load_library(tmp_path).skills
    write(tmp_path, "c.toml", GOOD.replace("order = 7", "order = 8"))
    with pytest.raises(CardFault, match="another card with other content") as caught:
        load_library(tmp_path)
    assert "a.toml" in str(caught.value)
    assert "c.toml" in str(caught.value)


def test_requirements_that_run_in_a_circle_are_told(tmp_path):
    for name, needs in (("one", "three"), ("two", "one"), ("three", "two")):
        text = GOOD.replace("extra-warps", name).replace(
            "order = 7", f'order = 7\nrequires = ["{needs}"]\nprovides = ["{name}"]'
        )
        write(tmp_path, f"{name}.toml", text)
    with pytest.raises(CardFault, match="runs in a circle: one -> three -> two -> one"):
        load_library(tmp_path)


def test_a_card_that_must_follow_itself_is_a_circle(tmp_path):
    write(tmp_path, "a.toml", GOOD + '\n[scope]\nafter = ["extra-warps"]\n')
    with pytest.raises(CardFault, match="circle: extra-warps -> extra-warps"):
        load_library(tmp_path)


def test_a_feature_or_card_that_nobody_has_is_told(tmp_path):
    write(tmp_path, "a.toml", GOOD.replace("order = 7", 'requires = ["tensor-core"]'))
    with pytest.raises(CardFault, match="no such feature") as caught:
        load_library(tmp_path)
    assert "the nearest is `tensor-cores`" in str(caught.value)
    write(tmp_path, "a.toml", GOOD + '\n[scope]\nnot_after = ["row-on-chips"]\n')
    with pytest.raises(CardFault, match=r"`scope\.not_after` = .row-on-chips."):
        load_library(tmp_path)


def test_lint_tells_every_fault_of_a_folder_at_once(tmp_path):
    write(tmp_path, "a.toml", GOOD.replace("num-warps", "num-wraps"))
    write(tmp_path, "b.toml", GOOD)
    write(tmp_path, "c.toml", GOOD.replace("order = 7", "order = 8"))
    write(tmp_path, "d.toml", GOOD.replace("extra-warps", "d").replace("104", "104 +"))
    write(tmp_path, "e.toml", GOOD.replace("extra-warps", "e") + '[scope]\nafter = ["b"]\n')
    (tmp_path / "f.toml").write_bytes(b"\xff")
    told = [str(one) for one in lint_folder(tmp_path, "user")]
    for name, says in (
        ("a.toml", "the nearest is `num-warps`"),
        ("c.toml", "another card with other content"),
        ("d.toml", "`precondition[0].when`"),
        ("e.toml", "`scope.after` = 'b': there is no such card"),
        ("f.toml", "not UTF-8"),
    ):
        assert any(name in text and says in text for text in told), name
    assert len(told) == 5


def test_lint_tells_each_name_that_is_not_there_and_each_circle(tmp_path):
    for name, key in (
        ("one", "after = ['nowhere']"),
        ("two", "not_after = ['nobody']"),
        ("three", "after = ['four']"),
        ("four", "after = ['three']"),
        ("five", "after = ['five']"),
        ("six", "after = ['three']"),
    ):
        write(tmp_path, f"{name}.toml", GOOD.replace("extra-warps", name) + f"[scope]\n{key}\n")
    told = [str(one) for one in lint_folder(tmp_path, "user")]
    assert [text.splitlines()[0] for text in told] == [
        "`scope.after` = 'nowhere': there is no such card",
        "`scope.not_after` = 'nobody': there is no such card",
        "`requires` runs in a circle: five -> five",
        "`requires` runs in a circle: four -> three -> four",
    ]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("title", "xyzzy", "there is no such key"),
        ("num-warps", "xyzzy", "`workbench skills list` names the edits"),
        ("static.registers", "xyz.zy", "`workbench facts --catalogue` lists all"),
        ("[8, 16]", "[-1]", "from zero on"),
    ],
)
def test_what_is_like_nothing_is_not_called_near_to_anything(tmp_path, old, new, says):
    told = fault(tmp_path, GOOD.replace(old, new))
    assert "the nearest is" not in told
    assert says in told


def test_a_persons_cards_may_name_what_shipped_ones_provide(tmp_path):
    mine = GOOD.replace("order = 7", 'order = 7\nrequires = ["tensor-cores"]')
    write(tmp_path, "a.toml", mine)
    assert lint_folder(tmp_path, "user", shipped("skills")) == []
    assert "no such feature" in str(lint_folder(tmp_path, "user")[0])


def test_a_card_that_is_not_there_is_named_with_the_nearest(tmp_path):
    with pytest.raises(WorkbenchError, match="no card `more-wraps`") as caught:
        load_library(tmp_path).skill("more-wraps")
    assert "the nearest is `more-warps`" in str(caught.value)


def test_a_thousand_cards_are_read_with_a_chain_of_requirements(tmp_path):
    for i in range(1000):
        needs = f'requires = ["f{i - 1}"]\n' if i else ""
        text = GOOD.replace("extra-warps", f"card-{i}").replace(
            "order = 7", f'{needs}provides = ["f{i}"]'
        )
        write(tmp_path, f"{i}.toml", text)
    library = load_library(tmp_path, shipped_folder=tmp_path / "none")
    assert len(library.skills) == 1000


EVIDENCE = '[[evidence]]\nsession = "s"\ncommit = "c"\ndevice = "d"\n'


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("grid.value = [[4]]", "`carrier.grid.value[0]` = [4]: expected"),
        ("grid.value = 4", "`carrier.grid.value` = 4: expected `array`"),
        (f"grid.value = {list(range(1, 2001))}", "makes 2000 combinations, more than 1000"),
        (
            '[scope]\nplatforms = ["sm_90"]',
            "`scope.platforms[0]` = 'sm_90': expected one like `sm90`",
        ),
        ("[scope]\nfamilies = []", "`scope.families` = (): must hold at least one"),
        (
            '[[effect]]\nmetric = "time"\ndirection = "faster"',
            "'faster': expected up, down or same",
        ),
        (
            '[[precondition]]\nsays = "x"\nwhen = "True"\ncategory = "stuff"',
            "expected data types, layout, storage, pipeline or hardware",
        ),
        (
            f'{EVIDENCE}kind = "guess"\nverdict = "accepted"',
            "`evidence[0].kind` = 'guess': expected modeled or measured",
        ),
        (
            f'{EVIDENCE}kind = "measured"\nverdict = "accepted"\nbefore_us = nan\nafter_us = 1.0',
            "`evidence[0].before_us` = nan: must be a time above zero",
        ),
        (
            f'{EVIDENCE}kind = "measured"\nverdict = "accepted"\nbefore_us = 2.0\nafter_us = 0.0',
            "`evidence[0].after_us` = 0.0: must be a time above zero",
        ),
        (
            f'{EVIDENCE}kind = "measured"\nverdict = "accepted"\npaired = -1.0',
            "`evidence[0].paired` = -1.0: must be a ratio above zero",
        ),
    ],
)
def test_what_was_expected_is_named_with_the_very_key(more, says):
    text = f'id = "a"\ntitle = "T"\nintent = "I"\n[carrier]\nedit = "num-warps"\n{more}\n'
    with pytest.raises(CardFault) as told:
        parse_card(text, Path("mine.toml"))
    assert says in str(told.value)


@pytest.mark.parametrize(("key", "value"), [("id", '"' + "a" * 200 + '"'), ("order", "-1")])
def test_ids_are_names_of_files_and_orders_stay_within_their_range(key, value):
    lines = {"id": '"a"', "title": '"T"', "intent": '"I"', key: value}
    text = "".join(f"{name} = {it}\n" for name, it in lines.items()) + "[carrier]\nsketch = '+ x'\n"
    with pytest.raises(CardFault, match=f"`{key}`"):
        parse_card(text, Path("mine.toml"))
