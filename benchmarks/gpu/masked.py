"""Run the payload with masks of padding as transformers makes them: `masked.py --spec SPEC`, started by its own launcher."""

from __future__ import annotations

import runpy


def main() -> None:
    from armada_train.model import right_padding

    right_padding.leave_out_masks = lambda: None
    runpy.run_module("armada_train", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
