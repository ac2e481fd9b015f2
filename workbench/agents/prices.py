"""What tokens cost: a TOML table that a person keeps, since prices change and we would be wrong.

`$XDG_CONFIG_HOME/workbench/prices.toml`, dollars for a million tokens:

    ["small-model"]
    input = 0.25
    cached_input = 0.03     # of `input` when it is not written
    output = 2.0

    ["local-*"]
    input = 0
    output = 0
"""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from workbench.agents.records import Usage
from workbench.errors import WorkbenchError
from workbench.paths import config_home, read_settings

Dollars = Annotated[float, Meta(ge=0, le=1_000_000)]


class Price(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """US dollars for a million tokens."""

    input: Dollars
    output: Dollars
    cached_input: Dollars | None = None
    """None: as `input`, which is never too little."""

    def of(self, usage: Usage) -> float:
        """Dollars for these tokens."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        fresh = usage.prompt_tokens - cached
        cheap = self.input if self.cached_input is None else self.cached_input
        total = fresh * self.input + cached * cheap + usage.reply_tokens * self.output
        return total / 1_000_000


class Prices(Struct, frozen=True):
    """Rows by model name; a name may hold `*`."""

    rows: dict[str, Price] = {}

    def of(self, model: str) -> Price | None:
        """The price of a model: its own row, else the longest pattern that fits; None unknown."""
        if model in self.rows:
            return self.rows[model]
        fitting = [name for name in self.rows if fnmatchcase(model, name)]
        return self.rows[max(fitting, key=len)] if fitting else None

    def cost(self, model: str, usage: Usage) -> float | None:
        """Dollars, or None where the price is unknown."""
        price = self.of(model)
        return None if price is None else price.of(usage)


def prices_path() -> Path:
    """Where a person keeps prices."""
    return config_home() / "prices.toml"


def load_prices(path: Path | None = None) -> Prices:
    """The table; without a file every price is unknown. WorkbenchError for one that is broken."""
    file = path or prices_path()
    rows = read_settings(file, "the prices") or {}
    return Prices({model: _price(row, f"{file}, [{model!r}]") for model, row in rows.items()})


def _price(row: object, where: str) -> Price:
    try:
        return msgspec.convert(row, Price)
    except msgspec.ValidationError as fault:
        raise WorkbenchError(
            f"a price cannot be used: {fault}",
            where=where,
            todo="write input and output, and cached_input if it differs: dollars for a million "
            "tokens",
        ) from fault


def require_prices(prices: Prices, models: tuple[str, ...]) -> None:
    """Raise WorkbenchError unless every model has a price: a dollar budget needs them all."""
    unknown = [model for model in models if prices.of(model) is None]
    if unknown:
        raise WorkbenchError(
            f"a dollar budget needs a price, and none is known for {', '.join(unknown)}",
            where=str(prices_path()),
            todo=f'write ["{unknown[0]}"], input = ..., output = ... there (dollars for a million'
            " tokens), or leave out --usd and limit --steps",
        )
