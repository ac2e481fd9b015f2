"""What host code may do, decided from the source by abstract interpretation; start with `check`."""
