"""Which integer outputs name places, and when another place is as right as the reference's.

Runs in reference workers only. Equal values have no order of their own for `topk` and `sort`; for
`argmax` and `max(dim)` PyTorch documents the first. So an index that differs from the reference's
is asked what it picks, instead of being called wrong or being let through.
"""

from collections.abc import Callable, Sequence

import torch
from msgspec import Struct

from workbench.kernels.operators import OperatorMode


class Operator(Struct, frozen=True):
    """What is known of one operator that returns places."""

    many: bool
    """Several places along the dimension, which must then be distinct."""
    first: bool
    """Of equal values the first is taken, by PyTorch's documentation."""
    values: int | None
    """Which of its results holds what the places pick; None where it returns places alone."""
    places: int
    """Which of its results holds the places."""


_OPERATORS = {
    "aten.topk": Operator(many=True, first=False, values=0, places=1),
    "aten.sort": Operator(many=True, first=False, values=0, places=1),
    "aten.kthvalue": Operator(many=False, first=False, values=0, places=1),
    "aten.median": Operator(many=False, first=False, values=0, places=1),
    "aten.nanmedian": Operator(many=False, first=False, values=0, places=1),
    "aten.mode": Operator(many=False, first=False, values=0, places=1),
    "aten.max": Operator(many=False, first=True, values=0, places=1),
    "aten.min": Operator(many=False, first=True, values=0, places=1),
    "aten.argmax": Operator(many=False, first=True, values=None, places=0),
    "aten.argmin": Operator(many=False, first=True, values=None, places=0),
}


class Choice(Struct, frozen=True):
    """One use of such an operator while the reference ran."""

    operator: Operator
    source: torch.Tensor
    """What it picked from, with the dimension it picked along last."""
    places: torch.Tensor
    """As the operator returned them."""
    values: torch.Tensor | None
    dim: int | None
    """The dimension of the choice in `places`; None where it was reduced away."""
    sorted: bool
    """Its results have an order that the reference promises."""

    def arranged(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor of as many elements as `places`, with the dimension of the choice last."""
        shaped = tensor.reshape(self.places.shape)
        return shaped.unsqueeze(-1) if self.dim is None else shaped.movedim(self.dim, -1)

    def restored(self, tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """Undo `arranged`, into `shape`."""
        shaped = tensor.squeeze(-1) if self.dim is None else tensor.movedim(-1, self.dim)
        return shaped.reshape(shape)


class Choices(OperatorMode):
    """Notes every use of an operator that returns places."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Choice] = []

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        out = func(*args, **(kwargs or {}))
        operator = _OPERATORS.get(str(getattr(func, "overloadpacket", func)))
        if operator is not None:
            named = _named(func, args, kwargs or {})
            results = out if isinstance(out, tuple | list) else (out,)
            if len(results) > operator.places:
                self._note(operator, named, results)
        return out

    def _note(
        self, operator: Operator, named: dict[str, object], results: Sequence[object]
    ) -> None:
        source, places = named.get("self"), results[operator.places]
        if not isinstance(source, torch.Tensor) or not isinstance(places, torch.Tensor):
            return
        dim = named.get("dim", -1)
        flat = not isinstance(dim, int)
        picked_from = source.detach().reshape(-1) if flat else source.detach()
        axis = 0 if not isinstance(dim, int) else dim % max(source.dim(), 1)
        keeps = operator.many or (bool(named.get("keepdim")) and not flat)
        values = None if operator.values is None else results[operator.values]
        self.made.append(
            Choice(
                operator=operator,
                source=picked_from.movedim(axis, -1) if picked_from.dim() else picked_from,
                places=places.detach(),
                values=values.detach() if isinstance(values, torch.Tensor) else None,
                dim=axis if keeps and places.dim() else None,
                sorted=not operator.many or bool(named.get("sorted", True)),
            )
        )


def _named(
    func: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> dict[str, object]:
    """Arguments by name, defaults filled in."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return dict(kwargs)
    names = [argument.name for argument in schema.arguments]
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def choice_behind(made: Sequence[Choice], output: torch.Tensor, *, values: bool) -> int | None:
    """Which choice an output of the reference is: its places, or its values; None when none."""
    flat = output.reshape(-1)
    for number in reversed(range(len(made))):
        result = made[number].values if values else made[number].places
        if result is None or result.numel() != flat.numel() or flat.is_floating_point() != values:
            continue
        if bool((result.reshape(-1) == flat).all()):
            return number
    return None


def as_right(
    choice: Choice,
    exact: torch.Tensor,
    got: torch.Tensor,
    native: torch.Tensor,
    tolerance: float,
) -> torch.Tensor:
    """Which elements of `got`, other places than those of `native`, pick just as well.

    `exact` is the choice's source in fp64, `tolerance` how far two of its elements may be apart
    and still trade places: 0 where the source is no computed value, so that only equal ones may.
    """
    places, want = choice.arranged(got).long(), choice.arranged(native).long()
    inside = (places >= 0) & (places < exact.shape[-1])
    picked = exact.gather(-1, places.clamp(0, exact.shape[-1] - 1))
    wanted = exact.gather(-1, want)
    right = inside & ((picked == wanted) | ((picked - wanted).abs() <= tolerance))
    if choice.operator.first:
        right &= picked != wanted  # of equal ones only the first will do
    if choice.operator.many:
        ordered = places.sort(dim=-1).values
        distinct = (ordered[..., 1:] != ordered[..., :-1]).all(dim=-1, keepdim=True)
        right &= distinct
    return choice.restored(right, got.shape)


def in_falling_order(
    choice: Choice, values: torch.Tensor, places: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Results without a promised order, arranged by falling value; places go with their values."""
    arranged = choice.arranged(values)
    order = arranged.double().argsort(dim=-1, descending=True, stable=True)
    ordered = choice.restored(arranged.gather(-1, order), values.shape)
    if places is None:
        return ordered, None
    moved = choice.arranged(places).gather(-1, order)
    return ordered, choice.restored(moved, places.shape)


def with_its_values(
    made: Sequence[Choice],
    native: Sequence[torch.Tensor],
    got: Sequence[torch.Tensor],
    place: int,
) -> list[torch.Tensor]:
    """Outputs in which what the places of output `place` pick stands beside them.

    For places that were stored without their values: `got` then holds the reference's values, in
    another order than theirs.
    """
    outputs = list(got)
    number = choice_behind(made, native[place], values=False)
    for other, output in enumerate(native):
        if number is None or choice_behind(made, output, values=True) != number:
            continue
        source = made[number].source
        places = made[number].arranged(outputs[place]).long().clamp(0, source.shape[-1] - 1)
        picked = source.gather(-1, places).to(output.dtype)
        outputs[other] = made[number].restored(picked, output.shape)
    return outputs
