"""A beam of four on two GPUs whose answers hang on the source alone; one GPU may be sick.

Also a program: `python fleet_parts.py SESSION_FOLDER MOST [SICK]` runs an engine, to be killed.
"""

import sys
from pathlib import Path

from beam_parts import Climber, Ridge
from engine_parts import commits_told, report
from gpu_parts import sick, stations
from msgspec import structs

from workbench.engine import events as ev
from workbench.engine.fleet import Fleet, Station
from workbench.engine.history import History
from workbench.engine.parts import Judged, Look
from workbench.engine.serve import serve_session
from workbench.engine.sittings import Ear
from workbench.gate.records import GateReport

WELL = 3
"""Jobs after which a sick GPU falls sick."""


class OnGpu(Climber):
    """A candidate whose looks and gate each take one of the GPUs."""

    def __init__(self, workplace, source, history, number, step) -> None:
        super().__init__(workplace, source, history, number, step)
        self.ear = Ear(lambda _told: None, workplace.fleet.wake)
        self.on = ""

    def look(self) -> Look:
        return self._leased(super().look)

    def finish(self, history: History) -> Judged:
        judged = self._leased(lambda: super(OnGpu, self).finish(history))
        return structs.replace(judged, report=structs.replace(judged.report, gpu=self.on))

    def attend(self) -> None:
        self.ear.attend()
        super().attend()

    def give_up(self) -> None:
        self.ear.give_up()
        super().give_up()

    def _leased(self, ask):
        found = []

        def job(station: Station) -> GateReport:
            if self.workplace.falls_sick(station):
                return sick(station)
            found[:] = [ask()]
            return report()

        self.on = self.workplace.fleet.work(self.ear, job).gpu
        return found[0]


class TwoGpus(Ridge):
    """`Ridge` with four candidates open; `ill` is the GPU that falls sick."""

    beam = 4

    def __init__(self, *given, ill: int | None = None, **options) -> None:
        super().__init__(*given, **options)
        self.fleet = Fleet(None, stations(2), self.told, ahead=False)
        self.ill = ill
        self.jobs = [0, 0]

    def told(self, says: str) -> None:
        self.emit(ev.Note(level="warning", says=says))

    def falls_sick(self, station: Station) -> bool:
        self.jobs[station.index] += 1
        return station.index == self.ill and self.jobs[station.index] > WELL

    def sit(self, source, history, number, step):
        return OnGpu(self, source, history, number, step)


def opener(ill: int | None):
    def opened(store, settings, own_seed, emit):
        return TwoGpus(store, settings, own_seed, emit, gate_seconds=0.003, ill=ill)

    return opened


def main() -> None:
    folder, most = Path(sys.argv[1]), int(sys.argv[2])
    ill = int(sys.argv[3]) if len(sys.argv) > 3 else None
    serve_session(folder, listen=commits_told(most), open_workplace=opener(ill))


if __name__ == "__main__":
    main()
