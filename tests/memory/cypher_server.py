"""A Bolt server whose Cypher is run by kglite; `python cypher_server.py` prints its URL, at end of input its faults.

A process of its own: Mesa's EGL cannot be initialised in one that has loaded kglite and then PyTorch.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import kglite
from bolt_server import BoltServer, Failure, Parameters, Table, node


class Kglite:
    """Runs the Cypher, in transactions; what only reads cannot write."""

    def __init__(self) -> None:
        self._graph = kglite.KnowledgeGraph()
        self._transaction: Any = None

    def begin(self, read_only: bool) -> None:
        self._transaction = self._graph.begin_read() if read_only else self._graph.begin()

    def run(self, text: str, parameters: Parameters) -> Table:
        try:
            answer = self._transaction.cypher(text, params=parameters)
        except kglite.ReadOnlyError as error:
            raise Failure("Neo.ClientError.Statement.AccessMode", str(error)) from None
        except kglite.CypherError as error:
            raise Failure("Neo.ClientError.Statement.SyntaxError", str(error)) from None
        columns = list(answer.columns)
        return columns, [[_value(row[column]) for column in columns] for row in answer]

    def commit(self) -> None:
        self._transaction.commit()

    def rollback(self) -> None:
        self._transaction.rollback()


def _value(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"id", "labels", "properties"}:
        return node(value["id"], value["labels"], {"name": value["properties"]["name"]})
    return value


if __name__ == "__main__":
    with BoltServer(Kglite()).serving() as server:
        sys.stdout.write(server.url() + "\n")
        sys.stdout.flush()
        sys.stdin.read()
    json.dump(server.faults, sys.stdout)
