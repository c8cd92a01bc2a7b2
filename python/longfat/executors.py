"""Executors of other libraries, for :func:`longfat.sweep`.

Many libraries have a ``concurrent.futures.Executor`` themselves: ``dask.distributed.Client().get_executor()``,
``mpi4py.futures.MPIPoolExecutor()``, ``concurrent.futures.ProcessPoolExecutor()``. This module has those that do not.
"""

from __future__ import annotations

from concurrent.futures import Executor, Future
from typing import Any, Callable, Mapping, Optional

__all__ = ["RayExecutor"]


class RayExecutor(Executor):
    """Runs calls as Ray tasks. Ray repeats the tasks of a worker or node that is lost.

    :param options: options of the tasks, as in ``{"num_cpus": 1, "max_retries": 10}``.

    Call ``ray.init`` first.
    """

    def __init__(self, options: Optional[Mapping[str, Any]] = None) -> None:
        import ray

        # Retried without limit: a task consists of simulations, so repeating it has no side effect.
        self._call = ray.remote(**{"max_retries": -1, **(options or {})})(_call)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Calls a function in a worker; its arguments and its result are pickled."""
        return self._call.remote(fn, args, kwargs).future()


def _call(function: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]) -> Any:
    return function(*args, **kwargs)
