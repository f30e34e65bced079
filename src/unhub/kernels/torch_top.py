"""Largest values by torch: of each row of a tile, and of the rows of a reservoir that tiles are added to.

Among equal values those with the lowest places count, which torch's own top-k does not promise. Most scores are
rejected by the maxima of lanes: columns at equal distances, whose maximum takes one vectorised read.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import torch

Tensor: TypeAlias = Any  # a torch.Tensor, many of whose methods have no types

LANE_COLUMNS = 8  # of a tile: how many share a maximum
FEW_LANE_COLUMNS, MOST_HOT_SHARE = 4, 0.25  # as few where more than this share of the lanes would have to be read again
LANES_PER_WANTED = 4  # as many lanes for each of the k largest: then few values are above the k-th of their maxima


def largest_columns(values: Tensor, k: int) -> Tensor:
    """Return the columns of the k largest values of each row, (rows, k), ascending; of equal values the first ones."""
    rows, columns = values.shape
    where = torch.arange(columns, device=values.device).expand(rows, -1)
    if k >= columns:
        return where
    even = columns - columns % LANE_COLUMNS
    if even >= 2 * LANES_PER_WANTED * k:
        bars = _low_bars(values, k)
        owners, places = _over(values[:, :even], bars, equal_too=True)
        values, where = (
            torch.cat([found, rest[:, even:]], dim=1)
            for found, rest in zip(
                _side_by_side(rows, owners, places, values[owners, places]), (values, where), strict=True
            )
        )
    return where.gather(1, _largest(values, where, k)).sort(dim=1).values


def add_to_reservoir(
    tile: Tensor, first: int, k: int, values: Tensor, places: Tensor, counts: Tensor, bars: Tensor
) -> None:
    """Add a tile to each row's reservoir, (rows, room): append what is above its bar, and cut the rows that are full.

    The bar of a row is a number that k of its values reach, in most cases the k-th largest when it was last cut.
    """
    columns = tile.shape[1]
    even = columns - columns % LANE_COLUMNS
    if even:
        head = tile[:, :even]
        starts = even >= 2 * LANES_PER_WANTED * k and not bool(counts.any())
        if starts:
            bars[:] = _low_bars(head, k)
        _append(_over(head, bars, equal_too=starts), head, first, k, (values, places, counts, bars))
    if even < columns:
        tail = tile[:, even:]
        over = (tail > bars[:, None]).nonzero().unbind(1)
        _append(over, tail, first + even, k, (values, places, counts, bars))


def cut_reservoir(k: int, values: Tensor, places: Tensor, counts: Tensor) -> None:
    """Shorten each row's reservoir to its k largest values, by ascending places."""
    (long,) = (counts > k).nonzero(as_tuple=True)
    if len(long):
        nothing = values.new_empty((len(long), 0)), places.new_empty((len(long), 0))
        _keep_largest(long, k, (values, places, counts), nothing)
    width = int(counts.max()) if len(counts) else 0
    absent = torch.arange(width, device=counts.device) >= counts[:, None]
    order = places[:, :width].masked_fill(absent, torch.iinfo(places.dtype).max).argsort(dim=1)
    for held in (values, places):
        held[:, :width] = held[:, :width].gather(1, order)


def _append(
    over: tuple[Tensor, Tensor], tile: Tensor, first: int, k: int, held: tuple[Tensor, Tensor, Tensor, Tensor]
) -> None:
    """Add the scores of a tile at these rows, which ascend, and columns; rows without room for them are cut."""
    values, places, counts, bars = held
    owners, columns = over
    found, positions = _at(tile, owners, columns), (columns + first).to(places.dtype)
    fresh = torch.bincount(owners, minlength=len(counts))
    full = counts + fresh > values.shape[1]
    (cut,) = full.nonzero(as_tuple=True)
    if len(cut):
        (mine,) = full.index_select(0, owners).nonzero(as_tuple=True)
        (others,) = (~full).index_select(0, owners).nonzero(as_tuple=True)
        number = full.cumsum(0) - 1  # of a full row among the full ones
        more = _side_by_side(len(cut), number[owners[mine]], positions[mine], found[mine])
        _keep_largest(cut, k, (values, places, counts), more)
        bars[cut] = values[cut, :k].amin(dim=1)
        owners, found, positions = (one.index_select(0, others) for one in (owners, found, positions))
        fresh = fresh.masked_fill(full, 0)
    # The first free spot of each row in the whole reservoir, less how many scores are before the row's own ones.
    starts = torch.arange(len(counts), device=counts.device) * values.shape[1] + counts - fresh.cumsum(0) + fresh
    spots = starts.index_select(0, owners) + torch.arange(len(owners), device=owners.device)
    values.view(-1).scatter_(0, spots, found)
    places.view(-1).scatter_(0, spots, positions)
    counts += fresh


def _keep_largest(rows: Tensor, k: int, held: tuple[Tensor, Tensor, Tensor], more: tuple[Tensor, Tensor]) -> None:
    """Keep the k largest of what these rows hold and of more values."""
    values, places, counts = held
    width = int(counts[rows].max())
    absent = torch.arange(width, device=rows.device) >= counts[rows, None]
    both = torch.cat([values[rows, :width].masked_fill(absent, -torch.inf), more[0]], dim=1)
    where = torch.cat([places[rows, :width], more[1]], dim=1)
    kept = _largest(both, where, k)
    values[rows, :k], places[rows, :k] = both.gather(1, kept), where.gather(1, kept)
    counts[rows] = k


def _over(tile: Tensor, bars: Tensor, *, equal_too: bool) -> tuple[Tensor, Tensor]:
    """Return the rows, ascending, and columns of the scores above the bars of their rows; lanes divide the columns."""
    is_over = torch.ge if equal_too else torch.gt
    for size in (LANE_COLUMNS, FEW_LANE_COLUMNS):
        lanes = tile.shape[1] // size
        over = is_over(tile.unflatten(1, (size, lanes)).amax(dim=1), bars[:, None])
        if bool(over.float().mean() < MOST_HOT_SHARE):
            break
    owners, hot = over.nonzero().unbind(1)
    spread = hot[:, None] + lanes * torch.arange(size, device=tile.device)
    high = bars.index_select(0, owners)[:, None]
    lane, step = is_over(_at(tile, owners[:, None], spread), high).nonzero().unbind(1)
    return owners.index_select(0, lane), hot.index_select(0, lane) + lanes * step


def _at(tile: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Return the scores at these rows and columns; on a processor one index is read in a third of the time of two."""
    (down, right), (height, width) = tile.stride(), tile.shape
    flat = tile.as_strided((1 + (height - 1) * down + (width - 1) * right,), (1,))
    places = rows * down + columns * right
    return flat.index_select(0, places.view(-1)).view(places.shape)


def _low_bars(tile: Tensor, k: int) -> Tensor:
    """Return a number for each row that at least k of its values reach: the k-th largest maximum of its lanes."""
    columns, size = tile.shape[1], 1
    while columns // (2 * size) >= LANES_PER_WANTED * k:
        size *= 2
    lanes = columns // size
    maxima = tile[:, : lanes * size].unflatten(1, (size, lanes)).amax(dim=1)
    return maxima.topk(k, dim=1, sorted=False).values.amin(dim=1)


def _largest(values: Tensor, where: Tensor, k: int) -> Tensor:
    """Return the columns of the k largest values of each row, (rows, k); of equal values those of the lowest places."""
    top = values.topk(k, dim=1, sorted=False)
    bars = top.values.amin(dim=1, keepdim=True)
    tied = ((values >= bars).float().sum(dim=1) > k).nonzero()[:, 0]
    if len(tied):
        order = where[tied].argsort(dim=1)
        by_value = values[tied].gather(1, order).sort(dim=1, descending=True, stable=True).indices[:, :k]
        top.indices[tied] = order.gather(1, by_value)
    return top.indices


def _side_by_side(rows: int, owners: Tensor, places: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
    """Return values and places as (rows, most of a row), filled up with -inf; `owners` ascend."""
    counts = torch.bincount(owners, minlength=rows)
    within = torch.arange(len(owners), device=owners.device) - (counts.cumsum(0) - counts)[owners]
    width = int(counts.max()) if rows else 0
    values = torch.full((rows, width), -torch.inf, device=found.device)
    where = torch.full((rows, width), torch.iinfo(places.dtype).max, dtype=places.dtype, device=found.device)
    values[owners, within], where[owners, within] = found, places
    return values, where
