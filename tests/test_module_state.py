"""A candidate's tensors are found as torch finds them, and none of its code runs for that."""

import pytest
import torch
from torch import nn

from workbench.kernels.host_state import host_state
from workbench.kernels.module_state import buffers_of, state_of, tensors_of

CALLED = []


class Telling(nn.Module):
    """Writes down which of its methods run when its tensors are asked for."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.register_buffer("seen", torch.zeros(()))

    def state_dict(self, *args, **kwargs):
        CALLED.append("state_dict")
        return super().state_dict(*args, **kwargs)

    def named_modules(self, *args, **kwargs):
        CALLED.append("named_modules")
        return super().named_modules(*args, **kwargs)

    def get_extra_state(self):
        CALLED.append("get_extra_state")

    def set_extra_state(self, state):
        """A module that gives extra state takes it too."""


class Mixed(nn.Module):
    """Every kind of tensor that a module may hold, and a part that it holds twice."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 4)
        self.again = self.linear
        self.norm = nn.BatchNorm1d(4)
        self.listed = nn.ParameterList([torch.ones(2), torch.ones(1)])
        self.named = nn.ParameterDict({"a": torch.ones(2)})
        self.parts = nn.Sequential(nn.Conv1d(1, 2, 3), nn.MultiheadAttention(4, 2), nn.LSTM(3, 4))
        self.register_buffer("table", torch.ones(1))
        self.register_buffer("passing", torch.ones(1), persistent=False)
        self.register_buffer("absent", None)
        self.register_parameter("nothing", None)


@pytest.mark.parametrize("read", [state_of, buffers_of, tensors_of])
def test_no_method_of_a_part_runs_while_its_tensors_are_read(read):
    model = nn.Module()
    model.part = Telling()
    CALLED.clear()
    assert len(read(model)) in (1, 2)
    host_state(model, {}, frozenset({"part.weight"}))
    assert CALLED == []
    nn.Module.state_dict(model)
    dict(model.named_buffers())
    assert set(CALLED) == {"get_extra_state", "named_modules", "state_dict"}, "torch runs them"


def test_the_state_is_torch_s_own():
    model = Mixed()
    ours, torchs = state_of(model), model.state_dict()
    assert list(ours) == list(torchs)
    assert all(ours[name].data_ptr() == torchs[name].data_ptr() for name in ours)
    assert not any(tensor.requires_grad for tensor in ours.values())
    assert set(buffers_of(model)) == set(dict(model.named_buffers()))
    assert {id(t) for t in tensors_of(model)} == {
        id(t) for t in (*model.parameters(), *model.buffers())
    }


def test_a_module_that_holds_itself_ends():
    model = Telling()
    object.__getattribute__(model, "__dict__")["_modules"]["me"] = model
    assert set(state_of(model)) == {"weight", "seen"}
