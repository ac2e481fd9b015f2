"""What a screen or command may ask of a running engine; one JSON line each on its socket."""

from msgspec import Struct

from workbench.session.records import Answer


class Wish(Struct, frozen=True, kw_only=True, tag_field="wish"):
    """Base of all wishes."""


class Follow(Wish, frozen=True, kw_only=True, tag="follow"):
    """Send every event after `after`, then go on sending; the connection serves nothing else."""

    after: int = 0
    """The last `seq` that the asker has."""


class Decide(Wish, frozen=True, kw_only=True, tag="decide"):
    """Answer for one transition. It names its number, so a late answer cannot hit the next."""

    number: int
    answer: Answer
    """`accepted` or `vetoed`."""
    reason: str = ""


class Pause(Wish, frozen=True, kw_only=True, tag="pause"):
    """Wait after the running step."""


class Go(Wish, frozen=True, kw_only=True, tag="go"):
    """End a pause; in manual mode, start the next step."""


class Stop(Wish, frozen=True, kw_only=True, tag="stop"):
    """End the run after the running step; the best is kept."""


class Undo(Wish, frozen=True, kw_only=True, tag="undo"):
    """Take an accepted version back, with those made from it: `main` goes to what it was made from.

    It names the version, so that it cannot hit one that was accepted in the meantime alone.
    """

    number: int
    reason: str = ""


class Branch(Wish, frozen=True, kw_only=True, tag="branch"):
    """Go on from another accepted version: it becomes the incumbent."""

    number: int
    reason: str = ""


class Hint(Wish, frozen=True, kw_only=True, tag="hint"):
    """Words for the prompts of the steps to come."""

    text: str


class Choose(Wish, frozen=True, kw_only=True, tag="choose"):
    """What the next step shall be: a skill, if it is allowed on the kernel then."""

    skill: str = ""
    """A card's or a method's id; empty takes the choice before back."""
    kernel: str = ""
    """Empty: the first that it is allowed on."""
    change: str = ""
    """What to change, in words: the plan that a model carries out."""


class Submit(Wish, frozen=True, kw_only=True, tag="submit"):
    """A candidate that a person or an outside agent wrote, to be gated as the next transition."""

    source: str
    origin: str = "submitted"
    """Where it came from: `submitted mine.py`."""
    skill: str = ""
    """Id of the card or method that it carries out; empty for neither."""
    hint: str = ""
    """What it does, in words: kept with the transition, and told to later prompts."""


AnyMove = Undo | Branch
AnyWish = Follow | Decide | Pause | Go | Stop | AnyMove | Hint | Choose | Submit


class Granted(Struct, frozen=True, kw_only=True, tag_field="reply", tag="granted"):
    """The wish is carried out, and is durable where it changed the session."""

    says: str = ""


class Refused(Struct, frozen=True, kw_only=True, tag_field="reply", tag="refused"):
    """The wish is not carried out; nothing changed."""

    what: str
    todo: str = ""


AnyReply = Granted | Refused
