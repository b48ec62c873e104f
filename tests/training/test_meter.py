import torch

from easyvideor1.algo.losses import Sum
from easyvideor1.training.meter import Meter


def test_sums_counts_and_maxima_are_those_of_all_parts():
    meter = Meter()
    for total, count, largest in ((3.0, 2, 0.5), (1.0, 2, 4.0), (0.0, 0, -torch.inf)):
        meter.add_sums({"loss/a": Sum(torch.tensor(total), torch.tensor(count))})
        meter.add_max("gap_max", torch.tensor(largest))
    meter.add("nothing", Sum(torch.tensor(0.0), torch.tensor(0)))
    meter.add_max("nothing_max", torch.tensor(-torch.inf))
    assert meter.read().values() == {"loss/a": 1.0, "gap_max": 4.0}


def test_many_small_parts_do_not_vanish_beside_a_large_one():
    meter = Meter()
    meter.add("x", Sum(torch.tensor(2.0**24), torch.tensor(1)))
    for _ in range(4):
        meter.add("x", Sum(torch.tensor(0.5), torch.tensor(0)))  # float32 would drop each of them
    assert meter.read().values() == {"x": 2.0**24 + 2}


def test_a_meter_keeps_no_graph():
    weight = torch.ones(1, requires_grad=True)
    meter = Meter()
    meter.add("x", Sum((2 * weight).sum(), torch.tensor(1)))
    assert not meter._sums["x"].total.requires_grad


def test_an_empty_meter_reads_as_nothing():
    assert Meter().read().values() == {}
