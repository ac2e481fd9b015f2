"""Work over all versions is done once for each moment that has new ones."""

from workbench.engine.once import once


def test_the_same_object_is_worked_on_once_and_an_equal_one_anew() -> None:
    seen = []
    total = once(lambda numbers: seen.append(numbers) or sum(numbers))
    one, equal = (1, 2, 3), tuple(range(1, 4))
    assert [total(one), total(one), total(equal), total((4,))] == [6, 6, 6, 4]
    assert len(seen) == 3
