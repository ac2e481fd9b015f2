"""Changes to a kernel that apply at an anchor and undo exactly; `base`, then `registry`."""
