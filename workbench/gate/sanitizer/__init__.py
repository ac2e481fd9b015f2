"""compute-sanitizer on a candidate: `run` starts it, `parse` reads it, `check` judges."""
