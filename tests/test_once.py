"""Work over all versions is done once for each moment that has new ones, and some only once."""

import threading
from concurrent.futures import ThreadPoolExecutor

from workbench.engine.once import made_once, once


def test_the_same_object_is_worked_on_once_and_an_equal_one_anew() -> None:
    seen = []
    total = once(lambda numbers: seen.append(numbers) or sum(numbers))
    one, equal = (1, 2, 3), tuple(range(1, 4))
    assert [total(one), total(one), total(equal), total((4,))] == [6, 6, 6, 4]
    assert len(seen) == 3


def test_two_threads_that_ask_at_once_get_what_one_of_them_made():
    class Office:
        made = 0

        @made_once
        def desk(self):
            both.wait(timeout=60)
            Office.made += 1
            return object()

        @made_once
        def chair(self):
            return (self.desk,)

    office, both = Office(), threading.Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(lambda: office.chair), pool.submit(lambda: office.desk)]
        both.wait(timeout=60)
        chair, desk = (one.result(timeout=60) for one in asked)
    assert chair == (desk,)
    assert Office.made == 1
