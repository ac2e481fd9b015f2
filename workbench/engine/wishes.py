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


AnyWish = Follow | Decide | Pause | Go | Stop


class Granted(Struct, frozen=True, kw_only=True, tag_field="reply", tag="granted"):
    """The wish is carried out, and is durable where it changed the session."""

    says: str = ""


class Refused(Struct, frozen=True, kw_only=True, tag_field="reply", tag="refused"):
    """The wish is not carried out; nothing changed."""

    what: str
    todo: str = ""


AnyReply = Granted | Refused
