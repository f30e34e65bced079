"""Largest values by torch: of each row of a tile, and of the rows of a reservoir that tiles are added to.

Among equal values the first ones count, which torch's own top-k does not promise. Most scores are rejected by the
maxima of lanes: columns at equal distances, whose maximum takes one vectorised read.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

Tensor: TypeAlias = Any  # a torch.Tensor, many of whose methods have no types

LANE_COLUMNS = 16  # of a tile: how many share a maximum
LANES_PER_WANTED = 4  # as many lanes for each of the k largest: then few values are above the k-th of their maxima


def largest_columns(values: Tensor, k: int) -> Tensor:
    """Return the columns of the k largest values of each row, (rows, k), ascending; of equal values the first ones."""
    rows, columns = values.shape
    if k >= columns:
        return torch.arange(columns, device=values.device).expand(rows, -1)
    if columns >= 2 * LANES_PER_WANTED * k:
        owners, places, found = over(values, _low_bars(values, k), equal_too=True)
        padded, where = _side_by_side(rows, owners, places, found)
        return where.gather(1, largest_columns(padded, k))
    bars = values.topk(k, dim=1, sorted=False).values.amin(dim=1, keepdim=True)
    above = values > bars
    equal = values == bars
    room = k - above.sum(dim=1, keepdim=True)
    chosen = above | (equal & (equal.cumsum(dim=1) <= room))
    return chosen.nonzero()[:, 1].view(rows, k)


def over(tile: Tensor, bars: Tensor, *, equal_too: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows, columns and values of the scores above the bars of their rows, by row, then by column."""
    is_over = torch.ge if equal_too else torch.gt
    columns = tile.shape[1]
    lanes = columns // LANE_COLUMNS
    even = lanes * LANE_COLUMNS
    found_rows, found_columns = is_over(tile[:, even:], bars[:, None]).nonzero().unbind(1)
    found_columns = found_columns + even
    if lanes:
        maxima = tile[:, :even].unflatten(1, (LANE_COLUMNS, lanes)).amax(dim=1)
        owners, hot = is_over(maxima, bars[:, None]).nonzero().unbind(1)
        spread = hot[:, None] + lanes * torch.arange(LANE_COLUMNS, device=tile.device)
        some = is_over(tile[owners[:, None], spread], bars[owners, None])
        found_rows = torch.cat([owners[:, None].expand_as(spread)[some], found_rows])
        found_columns = torch.cat([spread[some], found_columns])
    order = (found_rows * columns + found_columns).argsort()
    found_rows, found_columns = found_rows[order], found_columns[order]
    return found_rows, found_columns, tile[found_rows, found_columns]


def _low_bars(tile: Tensor, k: int) -> Tensor:
    """Return a number for each row that at least k of its values reach: the k-th largest maximum of its lanes."""
    columns, size = tile.shape[1], 1
    while columns // (2 * size) >= LANES_PER_WANTED * k:
        size *= 2
    lanes = columns // size
    maxima = tile[:, : lanes * size].unflatten(1, (size, lanes)).amax(dim=1)
    return maxima.topk(k, dim=1, sorted=False).values.amin(dim=1)


def _side_by_side(rows: int, owners: Tensor, places: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """Return values and places as (rows, most of a row), filled up with -inf; `owners` ascend."""
    counts = torch.bincount(owners, minlength=rows)
    within = torch.arange(len(owners), device=owners.device) - (counts.cumsum(0) - counts)[owners]
    width = int(counts.max()) if rows else 0
    values = torch.full((rows, width), -torch.inf, device=found.device)
    where = torch.zeros((rows, width), dtype=places.dtype, device=found.device)
    values[owners, within], where[owners, within] = found, places
    return values, where


def add_to_reservoir(
    tile: Tensor, first: int, k: int, values: Tensor, places: Tensor, counts: Tensor, bars: Tensor
) -> None:
    """Add a tile to each row's reservoir, (rows, room): append what is above its bar, and cut the rows that are full.

    The bar of a row is its k-th largest value when it was last cut.
    """
    rows, columns = tile.shape
    starts_well = columns >= 2 * LANES_PER_WANTED * k and not bool(counts.any())
    owners, found_columns, found = over(tile, _low_bars(tile, k) if starts_well else bars, equal_too=starts_well)
    fresh = torch.bincount(owners, minlength=rows)
    starts = fresh.cumsum(0) - fresh
    full = counts + fresh > values.shape[1]
    fits = ~full[owners]
    spots = (counts - starts)[owners] + torch.arange(len(owners), device=owners.device)
    values[owners[fits], spots[fits]] = found[fits]
    places[owners[fits], spots[fits]] = (found_columns[fits] + first).to(places.dtype)
    counts += torch.where(full, torch.zeros_like(fresh), fresh)
    (cut,) = full.nonzero(as_tuple=True)
    if len(cut):
        mine = ~fits
        number = full.cumsum(0) - 1  # of a full row among the full ones
        more, where = _side_by_side(
            len(cut), number[owners[mine]], (found_columns[mine] + first).to(places.dtype), found[mine]
        )
        _keep_largest(cut, k, (values, places, counts), (more, where))
        bars[cut] = values[cut, :k].amin(dim=1)


def cut_reservoir(k: int, values: Tensor, places: Tensor, counts: Tensor) -> None:
    """Shorten each row's reservoir to its k largest values, in their order."""
    (long,) = (counts > k).nonzero(as_tuple=True)
    if len(long):
        nothing = values.new_empty((len(long), 0)), places.new_empty((len(long), 0))
        _keep_largest(long, k, (values, places, counts), nothing)


def _keep_largest(rows: Tensor, k: int, held: tuple[Tensor, Tensor, Tensor], more: tuple[Tensor, Tensor]) -> None:
    """Keep the k largest of what these rows hold and of more values, which come after them."""
    values, places, counts = held
    width = int(counts[rows].max())
    absent = torch.arange(width, device=rows.device) >= counts[rows, None]
    both = torch.cat([values[rows, :width].masked_fill(absent, -torch.inf), more[0]], dim=1)
    where = torch.cat([places[rows, :width], more[1]], dim=1)
    kept = largest_columns(both, k)
    values[rows[:, None], torch.arange(k, device=rows.device)] = both.gather(1, kept)
    places[rows[:, None], torch.arange(k, device=rows.device)] = where.gather(1, kept)
    counts[rows] = k
