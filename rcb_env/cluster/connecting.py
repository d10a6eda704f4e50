"""From what a user names to a cluster that this process belongs to.

`auto` is the cluster that this machine is part of, or that RAY_ADDRESS names; `local:N` is N nodes on this machine, made
now and gone at the end, to try things out; anything else is an address.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Iterator

import ray

from rcb_env.errors import UsageError

_ANSWER_S = 10.0
_LOCAL_MEMORY = 2 << 30  # of a node of local:N


@contextlib.contextmanager
def connected(where: str) -> Iterator[None]:
    """Belong to a cluster, until the end of the block.

    Args:
        where: "auto", an address, or "local:N".

    Raises:
        UsageError: there is none, or it does not let us in.
    """
    made = None
    if where.startswith("local"):
        made = _local(where)
        address = made.address
    else:
        address = where
    try:
        _join(where, address)
        yield
    finally:
        ray.shutdown()
        if made is not None:
            made.shutdown()


def _join(where: str, address: str) -> None:
    host, _, port = address.rpartition(":")
    if host and port.isdecimal():  # Ray itself goes on trying for minutes
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
        except (OSError, OverflowError) as error:
            raise _none(where, str(error)) from None
    try:
        ray.init(
            address=address,
            namespace="rcb-env-driver",
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
        raise _none(where, (str(error).strip() or type(error).__name__).splitlines()[0]) from None


def _none(where: str, why: str) -> UsageError:
    return UsageError(
        f"no cluster at {where}: {why}; start one with `ray start --head`, name its address, or write local:N to try it"
        " on this machine"
    )


def _local(where: str) -> ray.cluster_utils.Cluster:
    from ray.cluster_utils import Cluster

    _, _, number = where.partition(":")
    if not number.isdecimal() or not 1 <= int(number) <= 64:
        raise UsageError(f"--cluster {where}: write local:N, with a number of nodes from 1 to 64")
    cluster = Cluster()
    for _ in range(int(number)):
        cluster.add_node(
            num_cpus=os.cpu_count() or 1, memory=_LOCAL_MEMORY, object_store_memory=100 << 20
        )
    return cluster
