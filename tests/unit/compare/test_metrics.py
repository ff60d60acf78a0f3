"""The order of metrics: by importance, then by name, where numbers count."""

from __future__ import annotations

from armada.compare.metrics import in_order


def test_numbers_in_names_are_sorted_by_their_value() -> None:
    layers = ["layer_1", "layer_2", "layer_10", "layer_11", "layer_11/a2", "layer_11/a10"]
    assert in_order(reversed(layers)) == layers
    assert in_order(["b", "10", "9", "a", "loss", "eval_loss", "a1b", "a01", "a1"]) == [
        "loss",
        "eval_loss",
        "9",
        "10",
        "a",
        "a01",
        "a1",
        "a1b",
        "b",
    ]


def test_a_number_of_any_length_and_script_has_a_place() -> None:
    long, longer = "x" + "9" * 5000, "x1" + "0" * 5000
    assert in_order([longer, long, "x²", "x٣"]) == [long, longer, "x²", "x٣"]
