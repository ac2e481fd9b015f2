"""Commands and what they print: start with `main`; `say` owns stderr and exits, `emit` stdout."""
