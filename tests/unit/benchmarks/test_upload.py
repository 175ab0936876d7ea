"""What a benchmark of uploads says of two sides that took turns."""

from benchmarks.upload import differences


def test_differences_are_means_of_blocks_of_neighbours():
    assert differences([1, 1, 10, 10, 5], [2, 4, 9, 9, 50], blocks=2) == [2, -1]
