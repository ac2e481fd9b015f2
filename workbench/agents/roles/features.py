"""The feature extractor: what is known of the kernels as lines of names and numbers; no model."""

from collections.abc import Iterator

from workbench.agents.situation import Situation
from workbench.kernels.records import Fact
from workbench.measure.parts import in_words
from workbench.measure.records import Time
from workbench.search.proposer import Considered
from workbench.skills.policy import told

_AWAY = ("history.", "anchor.")
"""Facts that the prompt states elsewhere, or that hold only while a value is chosen."""


def facts_text(situation: Situation, *, brief: bool = False) -> str:
    """Facts of every kernel, a line each; unknown ones are named together.

    `brief` leaves out facts of the code, which the code itself shows.
    """
    return "\n\n".join(_kernel(one, brief=brief) for one in situation.considered)


def _kernel(one: Considered, *, brief: bool) -> str:
    facts = [f for f in one.facts.values() if not f.name.startswith(_AWAY)]
    if brief:
        facts = [f for f in facts if f.source != "code"]
    lines = [f"kernel {one.kernel}"]
    lines += [f"  {line}" for fact in facts if (line := _line(fact))]
    unknown = [f.name for f in facts if f.value is None]
    if unknown:
        lines.append(f"  unknown: {', '.join(unknown)}")
    return "\n".join(lines)


def _line(fact: Fact) -> str:
    if fact.value is None:
        return ""
    return f"{fact.name} = {value_text(fact.value)}{_unit(fact.unit)}  # {fact.says}"


def value_text(value: object) -> str:
    """A fact's value as the prompt writes it and as a reply has to repeat it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _unit(unit: str) -> str:
    return f" {unit}" if unit else ""


def policy_text(situation: Situation) -> str:
    """What the decision policy says of every kernel."""
    return "\n\n".join("\n".join(_ruling(one)) for one in situation.considered)


def _ruling(one: Considered) -> Iterator[str]:
    yield f"kernel {one.kernel}"
    for line in told(one.record):
        yield f"  {line}"
    for held in one.record.predicates:
        yield f"  {held.truth}: {held.says} [{held.because}]"


def time_text(time: Time | None) -> str:
    """`38.0 us modeled for sm90; dram 30.1, l2 4.0`."""
    if time is None:
        return "not timed"
    parts = ", ".join(
        f"{in_words(n)} {v:.2f}" for n, v in sorted(time.detail.items(), key=lambda p: -p[1]) if v
    )
    return (
        f"{time.microseconds:.2f} us {time.kind} for {time.device}{'; ' + parts if parts else ''}"
    )
