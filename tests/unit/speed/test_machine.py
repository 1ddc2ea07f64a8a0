"""A machine's limits: measured once for each number of threads, with one peak."""

import torch

from rankbook.speed.machine import VENDOR, Machine, measure_machine


def test_the_peak_is_the_best_product_in_any_format():
    machine = Machine("made up", {"float32": 100.0, "bf16": 400.0}, 10.0, 1.0)
    assert (machine.peak, machine.ridge) == (400.0, 40.0)
    assert machine.product("float64") == 100.0


def test_a_machine_is_measured_once_for_each_number_of_threads():
    threads = torch.get_num_threads()
    machine = measure_machine()
    assert machine is measure_machine("cpu")
    assert machine.vendor is None and machine.bytes_per_s > 0 < machine.call_s < 1
    try:
        torch.set_num_threads(threads + 1)
        assert measure_machine() is not machine
    finally:
        torch.set_num_threads(threads)


def test_makers_figures_are_flop_per_second():
    assert VENDOR["A100"] == 312e12 and all(1e14 < flop < 1e16 for flop in VENDOR.values())
