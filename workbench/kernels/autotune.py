"""Which configuration stands for an autotuned kernel where nothing can be timed."""

import contextlib
from collections.abc import Callable, Iterator

from triton.runtime.autotuner import Autotuner, Config

from workbench.kernels.untyped import Untyped

Choose = Callable[[str, list[Config], Callable[[Config], Untyped]], Untyped]
"""Gets the kernel's name, its surviving configurations and what launches it with one of them."""


@contextlib.contextmanager
def choosing(choose: Choose) -> Iterator[None]:
    """Let `choose` launch every autotuned kernel until the block ends, instead of benchmarking.

    Pruning and the hooks of the autotuner and of the chosen configuration run as on a GPU.
    """
    original = Autotuner.run

    def run(self: Untyped, *args: object, **kwargs: Untyped) -> Untyped:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        configs = self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs

        def launch(config: Config) -> Untyped:
            named = {**self.nargs, **kwargs, **config.all_kwargs()}
            if len(self.configs) > 1:
                self.pre_hook(named, reset_only=True)
            if config.pre_hook is not None:
                config.pre_hook(named)
            self.best_config = config
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
