"""Which model answers which role: `[model]` of `config.toml`, and OPENAI_* of the environment."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta, Struct, structs

from workbench.agents.records import Role
from workbench.errors import WorkbenchError
from workbench.paths import config_home, read_settings

Positive = Annotated[float, Meta(gt=0)]

OWN_URL = "https://api.openai.com/v1"
"""Where the `openai` package goes by itself."""


class Timeouts(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Seconds; defaults are ours. Reasoning models may think for minutes before the first token."""

    connect: Positive = 15.0
    first_token: Positive = 300.0
    between_tokens: Positive = 90.0
    whole: Positive = 1200.0


class Retries(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a passing fault is waited out; defaults are ours."""

    times: Annotated[int, Meta(ge=0, le=20)] = 4
    """After the first attempt."""
    backoff: Positive = 1.0
    """Seconds before the first retry at most; twice as long before each next one."""
    longest: Positive = 60.0
    """No pause is longer, except one that the provider asks for."""
    patience: Positive = 300.0
    """Longest pause that a provider may ask for with Retry-After."""


class ModelSettings(Struct, frozen=True, kw_only=True):
    """How one role asks. Holds the name of the key's variable, never the key."""

    model: str
    base_url: str = OWN_URL
    key_env: str = "OPENAI_API_KEY"
    """Empty: the endpoint wants no key."""
    temperature: float | None = None
    """None leaves it to the provider: reasoning models refuse any."""
    reasoning_effort: str = ""
    reply_tokens: int = 16_000
    """Most that one reply may have, hidden reasoning with it."""
    context_tokens: int = 120_000
    """What the model can read, prompt and reply together."""
    timeouts: Timeouts = Timeouts()
    retries: Retries = Retries()

    @property
    def local(self) -> bool:
        """Whether the endpoint is on this machine."""
        return urlsplit(self.base_url).hostname in {"localhost", "127.0.0.1", "::1"}


class _Row(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[model]`, and `[model.roles.NAME]`: what is not written is left as it was."""

    model: str | None = None
    base_url: str | None = None
    key_env: str | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh"] | None = None
    reply_tokens: Annotated[int, Meta(ge=256)] | None = None
    context_tokens: Annotated[int, Meta(ge=4096)] | None = None
    timeouts: Timeouts | None = None
    retries: Retries | None = None


class _Table(_Row, frozen=True, kw_only=True, forbid_unknown_fields=True):
    roles: dict[Role, _Row] = {}


class Models(Struct, frozen=True, kw_only=True):
    """The settings of every role."""

    default: ModelSettings
    roles: dict[Role, ModelSettings] = {}

    def of(self, role: Role) -> ModelSettings:
        """How this role asks."""
        return self.roles.get(role, self.default)

    def names(self) -> tuple[str, ...]:
        """Every model that may be asked, each once."""
        return tuple(dict.fromkeys(self.of(role).model for role in Role))


def load_models(path: Path | None = None, environ: Mapping[str, str] = os.environ) -> Models:
    """Read the settings; what `config.toml` does not say comes from OPENAI_BASE_URL, OPENAI_MODEL.

    Raises WorkbenchError when no model is named, for a key that is written into the file, an
    address that cannot be one, and for entries that cannot be used.
    """
    file = path or config_home() / "config.toml"
    table = _decode(_model_table(file), file)
    model = table.model or environ.get("OPENAI_MODEL", "")
    if not model:
        raise WorkbenchError(
            "no model is named",
            where=str(file),
            todo='write model = "NAME" under [model] there, or set OPENAI_MODEL;'
            " --proposer skills needs none",
        )
    base = ModelSettings(model=model, base_url=environ.get("OPENAI_BASE_URL") or OWN_URL)
    default = _checked(_over(base, table), file)
    roles = {role: _checked(_over(default, row), file) for role, row in table.roles.items()}
    return Models(default=default, roles=roles)


def _model_table(file: Path) -> dict[str, Any]:
    tables = read_settings(file, "the settings") or {}
    table = tables.get("model", {})
    if not isinstance(table, dict):
        raise WorkbenchError(
            "`model` is not a table",
            where=str(file),
            todo='write [model], and model = "NAME" below it',
        )
    return table


def _decode(table: dict[str, Any], file: Path) -> _Table:
    if any(key in row for row in (table, *_role_rows(table)) for key in ("key", "api_key")):
        raise WorkbenchError(
            "a key does not belong in this file",
            where=str(file),
            todo='put it into an environment variable and write key_env = "ITS_NAME"',
        )
    try:
        return msgspec.convert(table, _Table)
    except msgspec.ValidationError as fault:
        says, _, at = str(fault).partition(" - at ")
        place = re.sub(r"^key` in `|`|^\$\.?|\$\.", "", at.strip("`"))
        raise WorkbenchError(
            f"an entry cannot be used: {says}",
            where=f"{file}, [model] {place}".rstrip(),
            todo=f"entries: {', '.join(_Row.__struct_fields__)}; roles: {', '.join(Role)}",
        ) from fault


def _role_rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    roles = table.get("roles", {})
    rows = roles.values() if isinstance(roles, dict) else ()
    return [row for row in rows if isinstance(row, dict)]


def _over(base: ModelSettings, row: _Row) -> ModelSettings:
    """The base with what the row says; timeouts and retries are replaced as wholes."""
    given = {
        name: value
        for name in ModelSettings.__struct_fields__
        if (value := getattr(row, name)) is not None
    }
    return structs.replace(base, **given)


def _checked(settings: ModelSettings, file: Path) -> ModelSettings:
    try:
        parts = urlsplit(settings.base_url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise WorkbenchError(
            "the model's base_url is not an http address",
            where=f"{file} or OPENAI_BASE_URL",
            todo="begin it with http:// or https://, as in http://127.0.0.1:8000/v1 or"
            " http://[::1]:8000/v1",
        )
    if parts.username or parts.password or parts.query:
        raise WorkbenchError(
            "the model's base_url holds a secret or a query",
            where=f"{file} or OPENAI_BASE_URL",
            todo="leave the plain address; a key goes into the variable that key_env names",
        )
    if settings.reply_tokens >= settings.context_tokens:
        raise WorkbenchError(
            f"reply_tokens {settings.reply_tokens} leave no room for a prompt in"
            f" context_tokens {settings.context_tokens}",
            where=f"{file}, [model]",
            todo="make reply_tokens smaller, or context_tokens what the model reads",
        )
    return settings


def key_of(settings: ModelSettings, environ: Mapping[str, str] = os.environ) -> str:
    """The key itself, read when it is used; an endpoint on this machine may do without.

    Raises WorkbenchError when the variable is not set. The caller must not keep or show it.
    """
    if not settings.key_env:
        return ""
    key = environ.get(settings.key_env, "").strip()
    if not key and not settings.local:
        raise WorkbenchError(
            f"there is no key for {settings.model}",
            where=f"environment variable {settings.key_env}",
            todo=f"set it (export {settings.key_env}=...), or name another with key_env under"
            ' [model] of config.toml; key_env = "" for an endpoint without keys',
        )
    if not (key.isascii() and key.isprintable()):
        raise WorkbenchError(
            f"the key for {settings.model} holds signs that no request can carry",
            where=f"environment variable {settings.key_env}",
            todo="set it anew; quotes or blanks may have come with it when it was copied",
        )
    return key
