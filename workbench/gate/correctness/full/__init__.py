"""What can be shown of the full shape without a GPU; start with `stage`."""
