"""A count of calls is found wherever host code may keep it, and what is no count is let alone."""

import enum
import functools
import itertools
from collections import Counter, defaultdict, deque
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import triton
from torch import nn
from triton.tools.tensor_descriptor import TensorDescriptor

from workbench.kernels.host_state import CallCounter, host_state

CALLS = CallCounter.ENOUGH + 1


def copied(x_ptr, o_ptr, n, BLOCK):  # noqa: N803  # as kernels spell it
    """Stands for a kernel."""


def bit_by_bit(flags, call):
    """A number in binary, spread over many places of which none counts by itself."""
    for place in range(len(flags)):
        flags[place] = bool(call >> place & 1)


class Kept:
    """What a candidate keeps: `step(call)` changes it, `names` are its file's globals."""

    def __init__(self, step, model=None, own=(), **names):
        self.step, self.names, self.own = step, names, frozenset(own)
        self.model = nn.Module() if model is None else model

    def counted(self) -> str:
        counter, found = CallCounter(), ""
        for call in range(CALLS):
            self.step(call)
            found = counter.after_call(host_state(self.model, self.names, self.own))
        return found


def of_a_deque():
    queue = deque([1024] * 400)
    return Kept(lambda _: (queue.popleft(), queue.append(16)), queue=queue)


def of_training_flags():
    bits = nn.ModuleList(nn.Identity() for _ in range(9))

    def step(call):
        for place, module in enumerate(bits):
            module.train(bool(call >> place & 1))

    return Kept(step, bits)


def of_a_workspace(change):
    box = SimpleNamespace(ws=torch.empty(4))

    def step(_):
        box.ws = change(box.ws)

    return Kept(step, box=box)


def of_gradients_wanted():
    tensors = [torch.empty(1) for _ in range(9)]

    def step(call):
        for place, tensor in enumerate(tensors):
            tensor.requires_grad_(bool(call >> place & 1))

    return Kept(step, tensors=tensors)


def of_a_graph():
    box = [torch.ones(1, requires_grad=True)]

    def step(_):
        box[0] = box[0].view(1)

    return Kept(step, box=box)


def of_a_cached_function():
    @functools.cache
    def slot(key):
        return [key]

    return Kept(lambda call: slot(0).append(call), slot=slot)


def of_a_property():
    calls = []

    class Reader:
        turn = property(lambda _, calls=calls: calls)

    return Kept(Reader().turn.append, Reader=Reader)


def of_a_heuristic():
    seen = []
    kernel = triton.heuristics({"BLOCK": lambda _: seen.append(1) or 16})(triton.jit(copied))
    return Kept(lambda _: kernel.values["BLOCK"]({}), kernel=kernel)


def of_a_configuration():
    config = triton.Config({"BLOCK": 16})
    kernel = triton.autotune([config], key=[])(triton.jit(copied))

    def step(call):
        config.kwargs["BLOCK"] = call

    return Kept(step, kernel=kernel)


def of_slots():
    class Slotted:
        __slots__ = ("turn",)

    box = Slotted()
    return Kept(lambda call: setattr(box, "turn", call), box=box)


def of_a_context():
    @contextmanager
    def turns():
        seen = []
        while True:
            seen.append(1)
            yield seen

    held = turns()
    return Kept(lambda _: next(held.gen), held=held)


def of_an_enum():
    class Mode(enum.Enum):
        FAST = "fast"

    return Kept(lambda call: setattr(Mode.FAST, "turn", call), Mode=Mode)


def behind_many():
    filler, turns = [[0] for _ in range(26_000)], []
    return Kept(turns.append, filler=filler, turns=turns)


def deep_in_a_list():
    numbers = [0] * 5_000

    def step(call):
        numbers[4_321] = call

    return Kept(step, numbers=numbers)


def of_long_text():
    box = ["." * 200]

    def step(_):
        box[0] += "."

    return Kept(step, box=box)


def of_a_partial():
    held = functools.partial(print, sep=[])
    return Kept(held.keywords["sep"].append, held=held)


def in_a_box(make):
    def of_what_is_made():
        box = SimpleNamespace(held=make(0))

        def step(call):
            box.held = make(call)

        return Kept(step, box=box)

    return of_what_is_made


def of_bound_methods():
    hidden = []
    push, copied_list = hidden.append, hidden.copy
    return Kept(push, push=push, copied_list=copied_list)


def behind_yield_from():
    def inner():
        turn = 0
        while True:
            turn += 1
            yield 1

    def outer():
        yield from inner()

    held = outer()
    return Kept(lambda _: next(held), held=held)


def of_a_nameless_iterator():
    def countdown():
        for _ in range(40):
            _ = 0
            yield 128

    held = countdown()
    return Kept(lambda _: next(held), held=held)


def of_own_weights(change):
    def of_each():
        model = nn.Module()
        for place in range(9):
            model.register_parameter(f"p{place}", nn.Parameter(torch.zeros(4, 4)))

        def step(call):
            for place, weight in enumerate(model.parameters()):
                change(weight, bool(call >> place & 1))

        return Kept(step, model, own=model.state_dict())

    return of_each


def lay_anew(weight, across):
    weight.data = weight.data.t().contiguous().t() if across else weight.data.contiguous()


def of_names_of_arguments():
    kernel = triton.jit(copied)
    return Kept(lambda _: kernel.arg_names.append("x"), kernel=kernel)


def of_the_order_of_a_dict():
    turning = dict.fromkeys(range(60), 0)

    def step(_):
        first = next(iter(turning))
        turning[first] = turning.pop(first)

    return Kept(step, turning=turning)


def of(value, step):
    return lambda: Kept(step(value), value=value)


def of_a_default():
    turns = itertools.count()
    made = defaultdict(lambda: next(turns))

    return Kept(lambda _: made.pop(made["n"], made.clear()), made=made)


def of_the_best_configuration():
    configs = [triton.Config({"BLOCK": 16, "TURN": turn}) for turn in range(CALLS)]
    kernel = triton.autotune(configs, key=[])(triton.jit(copied))
    return Kept(lambda call: setattr(kernel, "best_config", configs[call]), kernel=kernel)


def of_an_argument_of(kind):
    fault = kind()
    return Kept(lambda _: setattr(fault, "args", (*fault.args, 1)), fault=fault)


def of_a_member_of(held):
    return of(held, lambda held: lambda call: setattr(held, "turn", [call]))


def of_the_place_in_a_chain():
    chain = [SimpleNamespace()]
    for _ in range(CALLS):
        chain.insert(0, SimpleNamespace(next=chain[0]))
    box = SimpleNamespace(here=chain[0])

    def step(_):
        box.here = box.here.next

    return Kept(step, chain=chain, box=box)


def among_too_many():
    return Kept(lambda _: None, much=[[None] for _ in range(140_000)])


COUNTERS = {
    "more than can be looked at": among_too_many,
    "an array": of(np.zeros(3), lambda a: a.fill),
    "a deque that turns": of_a_deque,
    "flags of training": of_training_flags,
    "gradients wanted": of_gradients_wanted,
    "bits in a list": of([False] * 9, lambda flags: lambda call: bit_by_bit(flags, call)),
    "dimensions": lambda: of_a_workspace(lambda ws: ws.unsqueeze(0)),
    "strides": lambda: of_a_workspace(lambda ws: ws.as_strided((1,), (ws.stride(-1) + 1,))),
    "sizes": lambda: of_a_workspace(lambda ws: ws.new_empty(ws.numel() + 1)),
    "a graph": of_a_graph,
    "a cached function": of_a_cached_function,
    "a property": of_a_property,
    "a heuristic": of_a_heuristic,
    "a configuration": of_a_configuration,
    "slots": of_slots,
    "a context": of_a_context,
    "an enum": of_an_enum,
    "behind many values": behind_many,
    "deep in a list": deep_in_a_list,
    "long text": of_long_text,
    "a partial": of_a_partial,
    "islice": of(itertools.islice(itertools.count(), 10**6), lambda it: lambda _: next(it)),
    "map": of(map(str, itertools.count()), lambda it: lambda _: next(it)),
    "a number of numpy": in_a_box(np.int64),
    "a device's number": in_a_box(lambda call: torch.device("cuda", call)),
    "bound methods of a hidden list": of_bound_methods,
    "behind yield from": behind_yield_from,
    "a nameless iterator": of_a_nameless_iterator,
    "gradients wanted of own weights": of_own_weights(nn.Parameter.requires_grad_),
    "how own weights lie": of_own_weights(lay_anew),
    "names of arguments": of_names_of_arguments,
    "the order of a dict": of_the_order_of_a_dict,
    "a generator's seed": of(torch.Generator(), lambda g: g.manual_seed),
    "what a default dict makes": of_a_default,
    "the best configuration": of_the_best_configuration,
    "the place in a chain": of_the_place_in_a_chain,
    "arguments of an exception": lambda: of_an_argument_of(type("Done", (Exception,), {})),
    "a member of a counter": of_a_member_of(Counter()),
    "a member of a tuple": of_a_member_of(type("Pair", (tuple,), {})((1, 2))),
    "a member of a configuration": of_a_member_of(triton.Config({"BLOCK": 16})),
    "the tile of a descriptor": of(
        TensorDescriptor(torch.empty(16, 16), [16, 16], [16, 1], [16, 16]),
        lambda desc: lambda call: setattr(desc, "block_shape", [call, 16]),
    ),
    "a list among objects": of(
        np.array([[0], [0, 1]], dtype="object"), lambda lists: lists[0].append
    ),
    "a name that begins with two lines": lambda: Kept((box := [0]).append, __turns=box),
}


@pytest.mark.parametrize("kept", COUNTERS.values(), ids=COUNTERS)
def test_a_count_of_calls_is_found(kept):
    assert kept().counted() != ""


def of_two_buffers():
    box = SimpleNamespace(turn=0, buffers=[torch.empty(3), torch.empty(3)])

    def step(_):
        box.turn ^= 1
        box.buffers.reverse()

    return Kept(step, box=box)


def of_scratch_made_anew():
    box = {}

    def step(_):
        box["scratch"] = torch.empty(64, 64)

    return Kept(step, box=box)


def of_plans_by_shape():
    plans = {}
    return Kept(lambda call: plans.setdefault((4, min(call, 3)), lambda: call), plans=plans)


def of_a_kernel_that_runs():
    kernel = triton.autotune([triton.Config({"BLOCK": 16})], key=["n"])(triton.jit(copied))

    def step(call):
        kernel.cache[call] = kernel.configs[0]

    return Kept(step, kernel=kernel)


HONEST = {
    "two buffers in turn": of_two_buffers,
    "scratch made anew": of_scratch_made_anew,
    "plans by shape": of_plans_by_shape,
    "what Triton keeps": of_a_kernel_that_runs,
    "a cached size": of(functools.cache(lambda n: n), lambda f: lambda _: f(7)),
}


@pytest.mark.parametrize("kept", HONEST.values(), ids=HONEST)
def test_what_honest_host_code_keeps_is_no_count(kept):
    assert kept().counted() == ""
