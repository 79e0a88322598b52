"""Operations that some engines lack, made of those that all have."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ibis.expr.types as ir
    from ibis.common.deferred import Deferred


def quantile_by(
    table: ir.Table, by: Sequence[str], value: str, q: float, *, discrete: bool = False, **others: Deferred
) -> ir.Table:
    """As :meth:`Backend.quantile_by`, by ranks: BigQuery has no exact quantiles as aggregates."""
    import ibis

    known = table[value]
    # Nulls come last; their ranks are not used.
    ranked = table.mutate(
        whydrop_rank=ibis.row_number().over(group_by=list(by), order_by=[known.asc(nulls_first=False)]),
        whydrop_rows=known.count().over(group_by=list(by)),
    )
    if discrete:
        # Ranks count from 0; q of 0 asks for the first.
        rank = ibis.greatest((ranked.whydrop_rows * q).ceil() - 1, 0)
        return ranked.group_by(*by).agg(quantile=ranked[value].max(where=ranked.whydrop_rank == rank), **others)
    position = (ranked.whydrop_rows - 1) * q
    # Of each group the rows at the ranks around the position, and how far beyond the lower rank it lies.
    sums = ranked.group_by(*by).agg(
        whydrop_low=ranked[value].max(where=ranked.whydrop_rank == position.floor()),
        whydrop_high=ranked[value].max(where=ranked.whydrop_rank == position.ceil()),
        whydrop_share=(position - position.floor()).max(),
        **others,
    )
    quantile = sums.whydrop_low + (sums.whydrop_high - sums.whydrop_low) * sums.whydrop_share
    return sums.select(*by, *others, quantile=quantile)
