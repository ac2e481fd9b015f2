"""One module a role: what its prompt holds, and what is read out of its reply."""
