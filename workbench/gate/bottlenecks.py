"""Which resource limits each kernel of a gated candidate, from its report alone."""

from workbench.gate.records import GateReport
from workbench.kernels.facts import read_facts
from workbench.kernels.target import TARGETS
from workbench.measure.bottleneck import Bottleneck
from workbench.measure.bottleneck_rules import classify
from workbench.measure.ncu.facts import ncu_facts
from workbench.measure.parts import largest_part


def bottlenecks(gate: GateReport) -> dict[str, Bottleneck]:
    """By kernel, in launch order; empty where nothing was compiled.

    Hardware counters decide where the report has them, otherwise the trace, the model and the
    compiled code.
    """
    target = TARGETS.get(gate.target)
    if target is None:
        return {}
    part, share = largest_part(gate.time, gate.launches, gate.traces, target)
    reached = gate.limit.share(gate.time) if gate.limit and gate.time else None
    known = {
        "profile.bottleneck": part,
        "profile.bottleneck_share": share,
        "profile.efficiency": reached,
    }
    found = {}
    for kernel in dict.fromkeys(launch.kernel for launch in gate.launches):
        about = {**known, **ncu_facts(gate.ncu, kernel)}
        facts = read_facts("", kernel, gate.launches, gate.traces, about, target)
        found[kernel] = classify(facts)
    return found
