"""A session's gatehouse with one station, which has no GPU and says that it is one."""

from workbench.engine.fleet import Fleet, Station
from workbench.engine.gatehouse import Gatehouse
from workbench.gate.judge import GateSettings
from workbench.gate.problem.inspect import inspect_problem


def house_of(store, task, shop, tell, completing=None):
    """`tell` gets what a gate reports of a step, `completing` is what a seed is completed by."""
    facts = inspect_problem(task, shop)
    station = Station(index=None, name="cuda:0", workshop=shop)
    return Gatehouse(
        store,
        task,
        lambda: facts,
        Fleet(shop, [station], lambda _says: None),
        completing=completing,
        gate_settings=GateSettings(target="sm90"),
        tell=tell,
    )
