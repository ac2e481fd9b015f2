"""A candidate's kernels without timing them: `source`, `record`, `interpret`, `static`, `facts`."""
