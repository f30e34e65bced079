"""The block reductions: compiled with numba where it is installed, plain numpy beside it, with the same results."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING or os.environ.get("UNHUB_NO_NUMBA"):
    from unhub.kernels import plain as chosen
else:
    try:
        from unhub.kernels import compiled as chosen
    except ImportError:
        from unhub.kernels import plain as chosen

NAME = chosen.NAME
add_column_best = chosen.add_column_best
add_log_sums = chosen.add_log_sums
add_powers = chosen.add_powers
add_top = chosen.add_top
are_finite = chosen.are_finite
balance_rows = chosen.balance_rows
balance_short_rows = chosen.balance_short_rows
cut_top = chosen.cut_top
hash_rows = chosen.hash_rows
place_rows = chosen.place_rows
soften_rows = chosen.soften_rows
soften_short_rows = chosen.soften_short_rows
unit_rows = chosen.unit_rows
