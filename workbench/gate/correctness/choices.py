"""Which integer outputs are indices, and when another index is as right as the reference's.

Runs in reference workers only. `topk` and `sort` do not order equal values; for `argmax` and
`max(dim)` PyTorch documents the first. So an index that differs from the reference's is judged by
the value it selects, instead of being called wrong or being accepted.
"""

from collections.abc import Callable, Sequence

import torch
from msgspec import Struct

from workbench.kernels.operators import OperatorMode


class Operator(Struct, frozen=True):
    """Properties of one operator that returns indices."""

    many: bool
    """It selects several elements along the dimension, which must be distinct."""
    first: bool
    """It selects the first of equal values, by PyTorch's documentation."""
    values: int | None
    """Which of its results holds the selected values; None where it returns indices alone."""
    places: int
    """Which of its results holds the indices."""


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
    """What it selected from, with the dimension of the selection last."""
    places: torch.Tensor
    """The indices that the operator returned."""
    values: torch.Tensor | None
    dim: int | None
    """The dimension of the selection in `places`; None where it was reduced away."""
    sorted: bool
    """The order of its results is defined."""

    def arranged(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor with as many elements as `places`, with the dimension of the selection last."""
        shaped = tensor.reshape(self.places.shape)
        return shaped.unsqueeze(-1) if self.dim is None else shaped.movedim(self.dim, -1)

    def restored(self, tensor: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """Undo `arranged`, into `shape`."""
        shaped = tensor.squeeze(-1) if self.dim is None else tensor.movedim(-1, self.dim)
        return shaped.reshape(shape)


class Choices(OperatorMode):
    """Records every use of an operator that returns indices."""

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
    """Arguments by name, with defaults."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return dict(kwargs)
    names = [argument.name for argument in schema.arguments]
    defaults = {a.name: a.default_value for a in schema.arguments if a.has_default_value()}
    return {**defaults, **dict(zip(names, args, strict=False)), **kwargs}


def choice_behind(made: Sequence[Choice], output: torch.Tensor, *, values: bool) -> int | None:
    """The selection that an output of the reference comes from: its indices or its values.

    None when there is none.
    """
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
    *,
    whole: bool = True,
) -> torch.Tensor:
    """Which elements of `got`, indices that differ from those of `native`, are equally right.

    Indices of one row must be distinct where `got` is `whole`: where some of a row's are the
    reference's own, put in for what is not known, an index may be among them that was exchanged.

    `exact` is the selection's source in fp64, `tolerance` how far two of its elements may be apart
    and still be exchanged: 0 where the source is not computed, so that only equal ones may be.
    """
    places, want = choice.arranged(got).long(), choice.arranged(native).long()
    inside = (places >= 0) & (places < exact.shape[-1])
    picked = exact.gather(-1, places.clamp(0, exact.shape[-1] - 1))
    wanted = exact.gather(-1, want)
    right = inside & ((picked == wanted) | ((picked - wanted).abs() <= tolerance))
    if choice.operator.first:
        right &= picked != wanted  # of equal ones only the first will do
    if choice.operator.many and whole:
        ordered = places.sort(dim=-1).values
        distinct = (ordered[..., 1:] != ordered[..., :-1]).all(dim=-1, keepdim=True)
        right &= distinct
    return choice.restored(right, got.shape)


def in_falling_order(
    choice: Choice, values: torch.Tensor, places: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Results without a defined order, sorted by descending value, with their indices."""
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
    """Outputs extended by the values that the indices of output `place` select.

    For indices that were stored without their values: `got` then holds the reference's values in
    the order of the candidate's indices.
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
