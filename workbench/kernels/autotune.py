"""Replaces triton's autotuner where nothing can be timed: a caller chooses the configuration."""

import contextlib
import functools
import weakref
from collections.abc import Callable, Iterator

from triton.runtime.autotuner import Autotuner, Config

from workbench.kernels.untyped import Untyped

Choose = Callable[[str, list[Config], Callable[[Config], Untyped]], Untyped]
"""`choose(kernel name, configurations left after pruning, launch)` calls `launch(config)`."""
Rehearse = Callable[[Callable[[], None]], None]
"""`rehearse(run)` may call `run`, which launches a kernel as a benchmark does, or not."""

_QUANTILES = (0.5, 0.2, 0.8)
"""What triton asks a benchmark for (`Autotuner._bench`)."""

_tuned: "weakref.WeakKeyDictionary[Untyped, set[tuple[str, ...]]]" = weakref.WeakKeyDictionary()
"""Keys for which each autotuner would already have benchmarked."""
_chosen: "weakref.WeakKeyDictionary[Untyped, Config]" = weakref.WeakKeyDictionary()
"""What each autotuner was made to launch last."""


def _new_key(tuner: Untyped, named: dict[str, Untyped]) -> bool:
    """Whether triton would benchmark for this call; only then does it run `reset_to_zero`.

    The key is built as in triton's `Autotuner.run`.
    """
    known = {name: value for name, value in named.items() if name in tuner.arg_names}
    key = [repr(known[name]) for name in tuner.keys if name in known]
    key += [str(value.dtype) for value in known.values() if hasattr(value, "dtype")]
    seen = _tuned.setdefault(tuner, set())
    fresh = tuple(key) not in seen
    seen.add(tuple(key))
    return fresh


def chosen_last(config: object) -> bool:
    """Whether an autotuner was made to launch this configuration, and no other one since."""
    return any(config is one for one in _chosen.values())


def _measures_itself(tuner: Untyped) -> bool:
    """Whether the candidate gave a function that benchmarks: code of its own, which runs too."""
    given = tuner._do_bench  # noqa: SLF001 -- the public property asks for a driver
    return given is not None and not str(given.__module__).startswith("triton.")


def _nothing() -> None:
    """What a candidate's benchmark gets for a configuration that is not launched here."""


def _never(run: Callable[[], None]) -> None:
    """No benchmark."""


@contextlib.contextmanager
def choosing(choose: Choose, rehearse: Rehearse = _never) -> Iterator[None]:
    """Let `choose` launch every autotuned kernel until the block ends, instead of benchmarking.

    Pruning and the hooks of the autotuner and of the chosen configuration run as on a GPU.
    `rehearse` stands in for the benchmark, after which memory is as the kernel left it, but for
    what `reset_to_zero` and `restore_value` name.
    """
    original = Autotuner.run

    def run(self: Untyped, *args: object, **kwargs: Untyped) -> Untyped:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        configs = self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs

        def benchmarked(config: Config, named: dict[str, Untyped]) -> None:
            if config.pre_hook is not None:
                config.pre_hook(named)
            self.pre_hook(named)
            self.fn.run(*args, **kwargs, **config.all_kwargs())
            self.post_hook(named, exception=None)

        def launch(config: Config) -> Untyped:
            named = {**self.nargs, **kwargs, **config.all_kwargs()}
            if len(self.configs) > 1 and _new_key(self, named):
                timed = functools.partial(rehearse, lambda: benchmarked(config, named))
                if not _measures_itself(self):
                    timed()
                for one in configs if _measures_itself(self) else ():
                    self.do_bench(timed if one is config else _nothing, quantiles=_QUANTILES)
                self.pre_hook(named, reset_only=True)
            if config.pre_hook is not None:
                config.pre_hook(named)
            self.best_config = _chosen[self] = config
            return self.fn.run(*args, **kwargs, **config.all_kwargs())

        try:
            return choose(self.base_fn.__name__, list(configs), launch)
        finally:
            self.nargs = None

    Autotuner.run = run
    try:
        yield
    finally:
        Autotuner.run = original
