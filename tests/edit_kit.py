"""One edit on one text: what it made, what it changed, why it refused."""

import pytest

from workbench.kernels.edits.base import EditRefused
from workbench.kernels.edits.registry import EDITS
from workbench.kernels.source import read_source


def edited(text, edit, kernel="", **parameters):
    return EDITS[edit].apply(text, kernel or read_source(text).launched[0], parameters).source


def says(text, edit, kernel="", **parameters):
    with pytest.raises(EditRefused) as caught:
        edited(text, edit, kernel, **parameters)
    return caught.value.why


def changed(before, after):
    """The lines of each that the other does not have."""
    old, new = before.splitlines(), after.splitlines()
    return [x.strip() for x in old if x not in new], [x.strip() for x in new if x not in old]
