"""The installed skills: shipped cards, and a person's own, which replace them by id."""

import difflib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from workbench.errors import WorkbenchError
from workbench.paths import config_home, shipped
from workbench.skills.card import Skill, read_card
from workbench.skills.card_faults import CardFault, nearest
from workbench.skills.preferences import Preferences, load_preferences


class Library(Struct, frozen=True):
    """Skills by card id, in the plain order of techniques."""

    skills: dict[str, Skill]
    disabled: frozenset[str] = frozenset()
    """Ids that a person never wants chosen."""
    pinned: frozenset[str] = frozenset()
    """Ids that a person wants chosen first, where their conditions hold."""

    def skill(self, card_id: str) -> Skill:
        """The skill of a card; WorkbenchError with the nearest id when there is none."""
        found = self.skills.get(card_id)
        if found is None:
            near = difflib.get_close_matches(card_id, self.skills, n=1)
            guess = f"the nearest is `{near[0]}`; " if near else ""
            raise WorkbenchError(
                f"there is no card `{card_id}`", todo=f"{guess}`workbench skills list` shows all"
            )
        return found

    def decided(self, card_id: str) -> str:
        """What a person decided about a card: `disabled`, `pinned` or empty."""
        if card_id in self.disabled:
            return "disabled"
        return "pinned" if card_id in self.pinned else ""


def user_folder() -> Path:
    """Where a person keeps their own cards."""
    return config_home() / "skills"


def load_library(
    user: Path | None = None,
    *,
    shipped_folder: Path | None = None,
    preferences: Preferences | None = None,
) -> Library:
    """All skills, with what a person decided about them.

    `user` is the folder of a person's cards, by default the one in the settings, and with it what
    `workbench skills disable` and `pin` wrote there. A folder that does not exist holds no cards.
    Raises CardFault for a card that cannot be used, for two files of one folder with one id and
    different content, and for cards whose requirements or order run in a circle.
    """
    if preferences is None:
        preferences = load_preferences() if user is None else Preferences()
    ours = _read_folder(shipped("skills") if shipped_folder is None else shipped_folder, "shipped")
    theirs = _read_folder(user_folder() if user is None else user, "user")
    merged = dict(ours)
    for card_id, skill in theirs.items():
        before = ours.get(card_id)
        merged[card_id] = (
            skill if before is None else msgspec.structs.replace(skill, replaces=before.path)
        )
    for fault in _astray(merged):
        raise fault
    ordered = sorted(merged.values(), key=lambda s: (s.card.order, s.card.id))
    return Library(
        {s.card.id: s for s in ordered},
        disabled=frozenset(preferences.disabled),
        pinned=frozenset(preferences.pinned),
    )


def _read_folder(folder: Path, origin: str) -> dict[str, Skill]:
    found: dict[str, Skill] = {}
    if not folder.is_dir():
        return found
    for path in sorted(folder.glob("*.toml")):
        skill = read_card(path, origin)
        _must_differ(found.get(skill.card.id), skill)
        found.setdefault(skill.card.id, skill)
    return found


def lint_folder(folder: Path, origin: str, others: Path | None = None) -> list[CardFault]:
    """Everything that is wrong with the cards of a folder: a fault a file that cannot be read, and
    each name or circle that leads astray in those that can.

    `others` is a folder whose cards are there too: ids and features may be theirs.
    """
    faults: list[CardFault] = []
    good: dict[str, Skill] = dict(_read_folder(others, "shipped")) if others else {}
    ours: dict[str, Skill] = {}
    for path in sorted(folder.glob("*.toml")) if folder.is_dir() else []:
        try:
            skill = read_card(path, origin)
            _must_differ(ours.get(skill.card.id), skill)
        except CardFault as fault:
            faults.append(fault)
        else:
            ours[skill.card.id] = skill
    return [*faults, *_astray(good | ours)]


def _must_differ(before: Skill | None, skill: Skill) -> None:
    """Two files of one folder may share an id only when they say the same."""
    if before is not None and before.card != skill.card:
        raise CardFault(
            f"`id` = '{skill.card.id}': another card with other content has this id",
            where=f"{skill.path} and {before.path}",
            todo="give one of them another id, or remove it",
        )


def _astray(skills: dict[str, Skill]) -> Iterator[CardFault]:
    """What is wrong with cards that are each right by themselves."""
    yield from _unknown_names(skills)
    yield from _circles(skills)


def _unknown_names(skills: dict[str, Skill]) -> Iterator[CardFault]:
    """`after` and `not_after` name cards; `requires` names features that some card provides."""
    provided = {feature for s in skills.values() for feature in s.card.provides}
    for skill in skills.values():
        scope = skill.card.scope
        for key, names in (("after", scope.after), ("not_after", scope.not_after)):
            for name in names:
                if name not in skills:
                    yield _unknown(skill, f"scope.{key}", name, "card", skills)
        for feature in skill.card.requires:
            if feature not in provided:
                yield _unknown(skill, "requires", feature, "feature that a card provides", provided)


def _unknown(skill: Skill, key: str, name: str, what: str, known: Iterable[str]) -> CardFault:
    return CardFault(
        f"`{key}` = '{name}': there is no such {what}",
        where=str(skill.path),
        todo=nearest(name, known),
    )


def _circles(skills: dict[str, Skill]) -> Iterator[CardFault]:
    """A card that, through others, must come after itself could never be chosen."""
    providers: dict[str, list[str]] = {}
    for card_id, skill in skills.items():
        for feature in skill.card.provides:
            providers.setdefault(feature, []).append(card_id)
    before = {
        card_id: [one for one in _before(skill, providers) if one in skills]
        for card_id, skill in skills.items()
    }
    done: set[str] = set()
    for start in sorted(before):
        circle = _circle(start, before, done)
        if circle:
            done |= set(circle)
            yield CardFault(
                f"`requires` runs in a circle: {' -> '.join(circle)}",
                where=str(skills[circle[0]].path),
                todo="remove the requirement from one of these cards",
            )


def _before(skill: Skill, providers: dict[str, list[str]]) -> list[str]:
    """Cards that must come first: those named, and the only provider of a feature."""
    only = [providers[f][0] for f in skill.card.requires if len(providers.get(f, [])) == 1]
    return [*skill.card.scope.after, *only]


def _circle(start: str, before: dict[str, list[str]], done: set[str]) -> list[str]:
    """The circle that a walk from one card ends in; empty when there is none."""
    path: list[str] = []
    ahead = [(start, iter(before[start]))]
    path.append(start)
    while ahead:
        current, rest = ahead[-1]
        following = next(rest, None)
        if following is None:
            ahead.pop()
            path.pop()
            done.add(current)
        elif following in path:
            return [*path[path.index(following) :], following]
        elif following not in done:
            path.append(following)
            ahead.append((following, iter(before[following])))
    return []
