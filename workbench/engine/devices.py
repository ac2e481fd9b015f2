"""What `--device` and `--target`, and the device of a session, mean on this machine."""

import shlex
from pathlib import Path

from msgspec import Struct, structs

from workbench.errors import WorkbenchError
from workbench.kernels.target import target as known_target
from workbench.measure.gpuhealth import Sick, how_to_clear, sickness
from workbench.measure.gpus import Gpu, NvmlFault, hidden_by_environment, idlest, list_gpus
from workbench.session.names import spoken
from workbench.session.records import SessionSettings


class Place(Struct, frozen=True, kw_only=True):
    """Where candidates run and what they are compiled for."""

    device: str
    """Name of the GPU, or `cpu`."""
    index: int | None
    """Among the GPUs that this process may see, as CUDA counts them; None on the CPU."""
    target: str
    """Name of the compile target: `sm90`."""


_ALL = "cuda:all"
DRIVER_FILES = Path("/dev")
"""Where the driver has a file for each GPU, `nvidia0` and on."""


def offered_devices() -> tuple[str, ...]:
    """What a form may offer as `--device`: no more GPUs than this machine has.

    By the driver's files, since the driver itself may take seconds to answer; which of them can be
    used is `choose_places`'s to say.
    """
    count = sum(file.name[6:].isdecimal() for file in DRIVER_FILES.glob("nvidia*"))
    several = (_ALL,) if count > 1 else ()
    return ("auto", "cpu", *(f"cuda:{index}" for index in range(count)), *several)


def choose_places(device: str, target: str) -> tuple[Place, ...]:
    """As `choose_place`, also for several GPUs of one model: `cuda:all` or `cuda:0,cuda:1`.

    `cuda:all` leaves out what was taken out and what is split; a GPU that is named must be usable.
    Raises WorkbenchError as `choose_place`, for one that is named twice, and for different models:
    their times do not compare.
    """
    names = _every() if device == _ALL else [name.strip() for name in device.split(",")]
    if len(names) == 1:
        return (choose_place(names[0], target),)
    odd = [name for name in names if name in {"auto", "cpu", _ALL, ""}]
    if odd:
        raise WorkbenchError(
            f"{odd[0]!r} is not one of several GPUs",
            where=f"--device {device}",
            todo="name GPUs as cuda:0,cuda:1, or take all of them: cuda:all",
        )
    places = tuple(choose_place(name, target) for name in names)
    if len({place.index for place in places}) < len(places):
        raise WorkbenchError(
            "one GPU is named twice", where=f"--device {device}", todo="name each GPU once"
        )
    models = sorted({place.device for place in places})
    if len(models) > 1:
        raise WorkbenchError(
            f"these GPUs are of different models, whose times do not compare: {', '.join(models)}",
            where=f"--device {device}",
            todo="name GPUs of one model: workbench doctor lists them",
        )
    return places


def _every() -> list[str]:
    """Names of all GPUs that may be used. WorkbenchError where none may."""
    gpus = _gpus(_ALL)
    _refuse_hidden(gpus)
    if not gpus:
        raise WorkbenchError(
            "this machine has no NVIDIA GPU that may be used",
            where=f"--device {_ALL}",
            todo="--device auto takes the CPU where there is none",
        )
    usable = _well(_whole(gpus))
    return [f"cuda:{place}" for place, gpu in enumerate(gpus) if gpu in usable]


def choose_place(device: str, target: str) -> Place:
    """The place for `--device auto|cpu|cuda:N|GPU-uuid` and `--target smNN` (empty: its own).

    Raises WorkbenchError for a device that is not there or was taken out, a word that is none, or
    a target that the GPU is not. `auto` passes over a GPU that was taken out or split into slices,
    and takes the idlest of the others.
    """
    if device == "cpu":
        return Place(device="cpu", index=None, target=known_target(target or "sm90").name)
    if device == _ALL or "," in device:
        raise WorkbenchError(
            "one GPU is asked for here, and several are named",
            where=f"--device {device}",
            todo="`run` and `bench search --record` use several; here name one, or auto",
        )
    gpus = _gpus(device)
    if device == "auto":
        _refuse_hidden(gpus)
        if not gpus:
            return Place(device="cpu", index=None, target=known_target(target or "sm90").name)
        gpu = idlest(_well(_whole(gpus)))
    else:
        gpu = _named(device, gpus)
        _whole([gpu])
        if (sick := sickness(gpu.uuid)) is not None:
            raise _taken_out(f"{device} was taken out", device, [sick])
    if target and target != gpu.target:
        raise WorkbenchError(
            f"target {target} does not match {gpu.name} ({gpu.target})",
            where=f"--device {device}",
            todo=f"leave --target out, or use --device cpu to model {target}",
        )
    index = [one.uuid for one in gpus].index(gpu.uuid)
    return Place(device=gpu.name, index=index, target=known_target(gpu.target).name)


def elsewhere(path: Path) -> str:
    """What to do with a run whose GPU is not here."""
    return (
        f"go on where there is one (workbench export {spoken(path)} FILE); here workbench verify "
        f"{spoken(path)} judges its kernels, and workbench run PROBLEM --kernel "
        f"{shlex.quote(str(path / 'kernel.py'))} begins a session of its own"
    )


def here(settings: SessionSettings, path: Path, *, todo: str) -> SessionSettings:
    """A session's settings for this machine, which may not be the one where it began.

    It goes on on GPUs of the same model, whatever their numbers are here; of several, those that
    are another model now are left out. Raises WorkbenchError, with `todo`, where there is none:
    times of two models do not compare, and none may carry the other's name.
    """
    if settings.device_index is None:
        return settings
    gpus = _gpus(settings.device)
    same = [place for place, gpu in enumerate(gpus) if gpu.name == settings.device]
    if not same:
        raise WorkbenchError(
            f"session {path.name} was timed on {settings.device}, and there is none here",
            where=str(path),
            todo=todo,
        )
    wanted = settings.device_indices or (settings.device_index,)
    kept = tuple(place for place in wanted if place in same)
    if kept:
        # One that is gone stays named: the fleet reports that it works without it.
        kept += tuple(place for place in wanted if place >= len(gpus))
    else:
        kept = (gpus.index(idlest(_well(_whole([gpus[place] for place in same])))),)
    several = kept if len(kept) > 1 else ()
    return structs.replace(settings, device_index=kept[0], device_indices=several)


def _refuse_hidden(gpus: list[Gpu]) -> None:
    """WorkbenchError where a person asked for some GPU by the environment and got none."""
    if wanted := hidden_by_environment(gpus):
        raise WorkbenchError(
            f"CUDA_VISIBLE_DEVICES={wanted} leaves no whole GPU",
            where="--device auto",
            todo="name GPUs by index or GPU-uuid (no slices of one: their times are not a GPU's), "
            "or use --device cpu",
        )


def _whole(gpus: list[Gpu]) -> list[Gpu]:
    """The GPUs that are not split into slices. Raises WorkbenchError if none is left."""
    whole = [gpu for gpu in gpus if not gpu.mig]
    if whole:
        return whole
    raise WorkbenchError(
        f"{gpus[0].name} is split into slices (MIG), and a slice's times are not a GPU's",
        where="--device",
        todo="have MIG switched off, name another GPU, or use --device cpu",
    )


def _well(gpus: list[Gpu]) -> list[Gpu]:
    """The GPUs that were not taken out. Raises WorkbenchError if none is left."""
    sick = [found for gpu in gpus if (found := sickness(gpu.uuid)) is not None]
    if len(sick) == len(gpus):
        raise _taken_out("every GPU of this machine was taken out", "auto", sick)
    out = {one.uuid for one in sick}
    return [gpu for gpu in gpus if gpu.uuid not in out]


def _taken_out(what: str, device: str, sick: list[Sick]) -> WorkbenchError:
    return WorkbenchError(
        f"{what}: {sick[0].reason}",
        where=f"--device {device}, since {sick[0].since}",
        todo=f"{how_to_clear(sick[0].uuid)}; --device cpu models times meanwhile",
    )


def _gpus(device: str) -> list[Gpu]:
    try:
        return list_gpus()
    except NvmlFault as fault:
        raise WorkbenchError(
            f"the NVIDIA driver does not answer: {fault}",
            where=f"--device {device}",
            todo="look at nvidia-smi, or use --device cpu for modeled times",
        ) from fault


def _named(device: str, gpus: list[Gpu]) -> Gpu:
    if device.startswith("GPU-"):
        return _by_uuid(device, gpus)
    kind, _, number = device.partition(":")
    if kind != "cuda" or (number and not number.isdigit()):
        raise WorkbenchError(
            f"{device!r} is not a device",
            where="--device",
            todo="use auto, cpu or cuda:N, or a UUID (nvidia-smi -L)",
        )
    wanted = int(number or 0)
    if wanted < len(gpus):
        return gpus[wanted]
    there = ", ".join(f"cuda:{i} {g.name}" for i, g in enumerate(gpus)) or "no NVIDIA GPU"
    raise WorkbenchError(
        f"{device} is not on this machine",
        where="--device",
        todo=f"there is {there}; --device cpu models times without a GPU",
    )


def _by_uuid(device: str, gpus: list[Gpu]) -> Gpu:
    found = [gpu for gpu in gpus if gpu.uuid.startswith(device)]
    if len(found) == 1:
        return found[0]
    there = ", ".join(gpu.uuid for gpu in gpus) or "no NVIDIA GPU"
    raise WorkbenchError(
        f"{device} names {len(found) or 'none'} of the GPUs that may be used",
        where="--device",
        todo=f"there is {there}",
    )
