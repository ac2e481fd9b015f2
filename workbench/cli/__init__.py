"""Commands and what they print: start with `main`; `say` owns stderr and exit codes, `emit` stdout."""
