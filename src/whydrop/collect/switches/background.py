"""A thread that does, one after the other, what must not keep polls waiting: writing to disks."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

PATIENCE_S = 60.0


@dataclass(frozen=True)
class Order:
    """An order to the background thread."""

    now_ns: int | None = None  # wall clock, where time has come for something
    last: bool = False
    done: threading.Event = field(default_factory=threading.Event)


class Background:
    """Carries out orders in a thread that ends with the last of them, or with the process.

    Where none comes for a minute it carries out one that says nothing: what waits, waits no longer than that.
    """

    def __init__(
        self,
        name: str,
        carry_out: Callable[[Order], None],
        failed: Callable[[BaseException], None],
        patience_s: float = PATIENCE_S,
    ) -> None:
        """Start the thread.

        Args:
            name: of the thread.
            carry_out: does what an order says.
            failed: is told what `carry_out` raised: the next order may go better.
            patience_s: how long to wait for an order.
        """
        self._carry_out, self._failed, self._patience_s = carry_out, failed, patience_s
        self._orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def order(self, order: Order) -> None:
        """Have something done."""
        self._orders.put(order)

    def wait(self, order: Order) -> None:
        """Have something done, and wait until it is; after the last order nothing is."""
        if self._thread.is_alive():
            self._orders.put(order)
            order.done.wait()
        if order.last:
            self._thread.join()

    def _work(self) -> None:
        while True:
            try:
                order = self._orders.get(timeout=self._patience_s)
            except queue.Empty:
                order = Order()
            try:
                self._carry_out(order)
            except BaseException as reason:
                # What polars' Rust code did not expect arrives as a panic, which is no Exception.
                self._failed(reason)
            order.done.set()
            if order.last:
                return
