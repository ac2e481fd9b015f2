"""Facts of kernels as a session would have them, for tests of the decision policy."""

from workbench.kernels.facts_catalogue import CATALOGUE
from workbench.kernels.records import Fact


def facts(**values):
    """Every fact of the catalogue; a double underscore stands for the dot, the rest is unknown."""
    named = {name.replace("__", "."): value for name, value in values.items()}
    assert named.keys() <= CATALOGUE.keys()
    return {
        name: Fact(name=name, value=named.get(name), source=spec.source, says=spec.says)
        for name, spec in CATALOGUE.items()
    }


STREAM = {
    "code__kernel_count": 1,
    "code__dot_count": 0,
    "code__reduction_count": 0,
    "code__scan_count": 0,
    "code__atomic_count": 0,
    "code__load_count": 2,
    "code__loop_count": 0,
    "code__rereads_input": False,
    "code__has_modulo_offsets": False,
    "code__invariant_loads": 0,
    "trace__sector_efficiency": 1.0,
    "trace__load_redundancy": 1.0,
    "static__spills": 0,
    "static__registers": 32,
    "static__occupancy": 1.0,
    "static__limiter": "warps",
    "static__narrow_loads": False,
    "launch__waves": 8.0,
    "launch__total": 1,
}
"""A kernel that streams its data once."""

MATMUL = {
    **STREAM,
    "code__dot_count": 1,
    "code__loop_count": 1,
    "code__tunable_blocks": 3,
    "code__dot_precision": "ieee",
    "code__tile_order": "row-major",
    "arg__dot_dtype": "float32",
    "launch__block_elements": 1024,
    "problem__precision": "ieee",
}
"""An fp32 product in small tiles."""
