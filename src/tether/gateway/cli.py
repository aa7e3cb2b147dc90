"""`tether gateway`: journal, workers and HTTP service of one robot."""

from __future__ import annotations

import argparse
import contextlib
import ipaddress
import logging
import signal
import sys
from pathlib import Path
from typing import Any

from tether.arguments import not_negative, positive
from tether.errors import Fault, InvalidInputError
from tether.gateway.records import GatewayConfig
from tether.gateway.services import Services, load_services
from tether.gateway.supervisor import WorkerConfig
from tether.gateway.tokens import Tokens, make_token
from tether.gateway.tracing import log_with_tasks
from tether.memory.redis_server import RedisServer, connect, connection_options, require_durable
from tether.signing.files import private_folder, state_folder

_LOG = logging.getLogger(__name__)
_LAST_PORT = 65535
GRAPH_SERVICES = "tether_agent.graph_calls:live"
"""Of a ROS package: found where the workspace is built, and imported only when it is asked for."""


def add_parser(subparsers: Any) -> None:
    """Register the command."""
    parser = subparsers.add_parser("gateway", help="calls of task skills over HTTP, in a journal that loses none")
    parser.add_argument("--make-token", metavar="NAME", help="make a client's token, print it, and end")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    parser.add_argument("--port", type=positive, default=8420, help="(default: %(default)s)")
    parser.add_argument("--beyond-this-machine", action="store_true", help="permit a --host that others can reach")
    parser.add_argument("--workers", type=not_negative, default=2, help="processes that run calls (default: 2)")
    parser.add_argument("--concurrency", type=positive, default=8, help="calls at a time in each (default: 8)")
    parser.add_argument(
        "--services", help="MODULE:FUNCTION that makes skills, executor and verifier; see docs/gateway.md"
    )
    parser.add_argument(
        "--graph", action="store_true", help="calls go to the agent of the graph that runs in ROS_DOMAIN_ID"
    )
    parser.add_argument("--bag", type=Path, metavar="FOLDER", help="traces tell of this recording, too")
    parser.add_argument("--redis", metavar="URL", help="an existing server; without it one of our own is started")
    parser.add_argument("--accept-weaker-durability", action="store_true", help="of --redis: its confirmations may lie")
    parser.add_argument("--folder", type=Path, help="journal and tokens (default: `gateway` in the state folder)")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal."""
    where = arguments.folder or state_folder() / "gateway"
    if arguments.make_token is not None:
        sys.stdout.write(make_token(private_folder(where) / "tokens", arguments.make_token) + "\n")
        return 0
    if arguments.graph:
        if arguments.services is not None:
            raise InvalidInputError("gateway", [Fault("--graph", "--services", "one of them")])
        arguments.services = GRAPH_SERVICES
    if arguments.services is None:
        fix = "see docs/gateway.md; --graph calls the agent of a running graph"
        raise InvalidInputError("gateway", [Fault("--services", "nothing", "MODULE:FUNCTION, or --graph")], fix)
    _check_host(arguments.host, arguments.beyond_this_machine)
    if arguments.port > _LAST_PORT:
        raise InvalidInputError("gateway", [Fault("--port", str(arguments.port), f"1 to {_LAST_PORT}")])
    log_with_tasks(logging.INFO if arguments.verbose else logging.WARNING)
    services = load_services(arguments.services)  # before a token or a journal is made for what is refused
    folder = private_folder(where)
    if not list((folder / "tokens").glob("*.token")):
        make_token(folder / "tokens", "operator")
        sys.stderr.write(f"made a token for the client `operator`: {folder / 'tokens' / 'operator.token'}\n")
    with contextlib.ExitStack() as stack:
        url = arguments.redis or stack.enter_context(RedisServer(folder / "redis")).url
        client = connect(url)
        require_durable(client, accept_weaker=arguments.accept_weaker_durability)
        client.close()
        serve(url, services, Tokens(folder / "tokens"), GatewayConfig(), arguments)
    return 0


def serve(url: str, services: Services, tokens: Tokens, config: GatewayConfig, arguments: argparse.Namespace) -> None:
    """Run the service in this thread. arguments: host, port, services, workers, concurrency,
    bag."""
    import uvicorn

    from tether.gateway.app import make_app

    workers = WorkerConfig(url, arguments.services, arguments.workers, arguments.concurrency)
    app = make_app(async_client(url), services, tokens, config, workers, arguments.bag)
    # uvicorn raises the signal once more after it has ended in good order; Redis is still to be ended then.
    signal.signal(signal.SIGTERM, lambda *_: None)
    uvicorn.run(
        app,
        host=arguments.host,
        port=arguments.port,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=35,
        server_header=False,
    )


def async_client(url: str, patience_s: float = 5.0) -> Any:
    """A client for the gateway; where the server is gone for longer than `patience_s` a request is told so."""
    from redis.asyncio import BlockingConnectionPool, Redis
    from redis.asyncio.retry import Retry
    from redis.backoff import ExponentialBackoff

    options = connection_options(patience_s)
    options["retry"] = Retry(ExponentialBackoff(cap=0.2, base=0.01), round(patience_s / 0.2))
    pool = BlockingConnectionPool.from_url(url, max_connections=64, timeout=patience_s, **options)
    return Redis.from_pool(pool)


def _check_host(host: str, beyond: bool) -> None:
    try:
        is_local = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = False
    if not is_local and not beyond:
        fix = "put a TLS proxy in front of 127.0.0.1, or say --beyond-this-machine (tokens then pass unencrypted)"
        raise InvalidInputError("gateway", [Fault("--host", host, "an address of this machine only")], fix)
    if not is_local:
        _LOG.warning("listening at %s: tokens and calls pass unencrypted", host)
