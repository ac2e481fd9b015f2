"""Host code cannot tell from its tensors that there is no GPU."""

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from workbench.kernels.standin_tensors import HostDevice, move_to_gpu, on_host

CUDA = torch.device("cuda", 0)


def standing_in(source: str = __file__) -> HostDevice:
    return HostDevice(torch.device("cpu"), source)


def told(tensor: torch.Tensor) -> tuple[object, ...]:
    return tensor.device, tensor.is_cuda, tensor.is_cpu, tensor.get_device(), tensor.type()


ON_GPU = (CUDA, True, False, 0, "torch.cuda.FloatTensor")
ON_HOST = (torch.device("cpu"), False, True, -1, "torch.FloatTensor")


def test_what_the_judge_gives_says_that_it_is_on_the_gpu():
    given_tensor = torch.randn(3, 4)
    with standing_in():
        assert told(given_tensor) == ON_GPU
        assert told(given_tensor[1:].t()) == ON_GPU
        assert told(torch.empty_like(given_tensor)) == ON_GPU
        assert told(given_tensor.new_zeros(2)) == ON_GPU
        assert told(torch.ones(2, device=given_tensor.device)) == ON_GPU
        assert told(torch.ones(2, device="cuda")) == ON_GPU
        assert told(given_tensor.to(torch.float64).float()) == ON_GPU


def test_what_no_device_is_named_for_lies_on_the_host_until_it_is_moved():
    given_tensor = torch.randn(3)
    with standing_in():
        made = torch.zeros(3)
        assert told(made) == ON_HOST
        assert told(made.view(3, 1)[1:]) == ON_HOST
        assert told(torch.empty_like(made)) == ON_HOST
        moved = [made.cuda(), made.to("cuda"), made.to(CUDA), made.to(given_tensor)]
        moved += [made.to(device="cuda:0"), made.type_as(given_tensor), made.to(0)]
        assert [told(one) for one in moved] == [ON_GPU] * len(moved)
        assert told(made) == ON_HOST
        assert told(given_tensor.to("cpu")) == ON_HOST
        assert told(given_tensor) == ON_GPU
    assert all(torch.equal(one, made) and one is not made for one in moved)


def test_a_module_moves_its_state_and_nothing_else():
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(3))
            self.register_buffer("table", torch.ones(3), persistent=False)
            self.loose = torch.ones(3)

    with standing_in():
        held = Holder()
        move_to_gpu(held)
        assert told(held.weight.data) == told(held.table) == ON_GPU
        assert told(held.loose) == ON_HOST
    assert on_host(held.loose)


def test_without_a_candidates_file_nothing_is_the_hosts():
    with standing_in(source=""):
        assert told(torch.zeros(3)) == ON_GPU


@given(st.lists(st.integers(1, 5000), min_size=2, max_size=12))
@settings(max_examples=30, deadline=None)
def test_addresses_are_aligned_and_apart_as_an_allocator_of_a_gpu_has_them(sizes):
    tensors = [torch.empty(size) for size in sizes]
    with standing_in():
        places = sorted((t.data_ptr(), t.nbytes) for t in tensors)
        within = tensors[0][1:].data_ptr() - tensors[0].data_ptr() if sizes[0] > 1 else 4
        again = [t.data_ptr() for t in tensors]
    assert within == 4
    assert all(address % 512 == 0 for address, _ in places)
    assert all(a + size <= b for (a, size), (b, _) in itertools.pairwise(places))
    assert sorted(again) == [address for address, _ in places]
