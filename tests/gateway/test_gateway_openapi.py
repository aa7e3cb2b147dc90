"""Whatever is sent to what the OpenAPI names, nothing ends in an error of the server's."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import string
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("redis", reason="needs the extra agent")
pytest.importorskip("fastapi", reason="needs the extra agent")
pytest.importorskip("uvicorn", reason="needs the extra agent")
pytest.importorskip("httpx", reason="needs the extra agent")

from tether.bench.gateway_process import GatewayProcess

SCHEMATHESIS_VARIABLE = "TETHER_SCHEMATHESIS"
_REQUESTS = 400
_REFUSALS = """[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 413, 415, 422, 428, 429]
"""
"""Too large a body is refused as such (413), before it is read; Schemathesis does not count that as refused."""
_TEXTS = ("", "x", "../..", "a" * 300, "\x00", "é☃", "t1", "mark", "%2e%2e", "' OR 1=1", "{}", "null")
_NUMBERS = (0, -1, 1, 1e308, -1e-308, 0.5, 2**63, 10**30)


def wild(schema: dict[str, Any], spec: dict[str, Any], rng: random.Random, depth: int = 0) -> Any:
    """Something of about this schema's shape; in a third of all cases anything at all."""
    if rng.random() < 0.3 or depth > 4:
        return rng.choice([None, True, rng.choice(_NUMBERS), rng.choice(_TEXTS), [], {}, [{}], {"": None}])
    if "$ref" in schema:
        return wild(spec["components"]["schemas"][schema["$ref"].rpartition("/")[2]], spec, rng, depth)
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            return wild(rng.choice(schema[key]), spec, rng, depth)
    kind = schema.get("type")
    if kind == "object":
        names = {name: part for name, part in schema.get("properties", {}).items() if rng.random() < 0.9}
        made = {name: wild(part, spec, rng, depth + 1) for name, part in names.items()}
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            made |= {rng.choice(_TEXTS): wild(extra, spec, rng, depth + 1) for _ in range(rng.randrange(3))}
        return made
    if kind == "array":
        return [wild(schema.get("items", {}), spec, rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind in ("number", "integer"):
        return rng.choice(_NUMBERS)
    if kind == "boolean":
        return rng.random() < 0.5
    return rng.choice([*_TEXTS, "".join(rng.choice(string.ascii_lowercase) for _ in range(6))])


def test_damaged_requests_to_every_operation_are_answered_and_never_by_a_5xx(served: Callable[..., Any]) -> None:
    rng = random.Random(0)
    answered: dict[tuple[str, str], set[int]] = {}

    async def story() -> None:
        async with served().running() as client:
            spec = (await client.get("/openapi.json")).json()
            operations = [(path, method) for path, methods in spec["paths"].items() for method in methods]
            for number in range(_REQUESTS):
                path, method = operations[number % len(operations)]
                about = spec["paths"][path][method]
                url, query = path, {}
                for parameter in about.get("parameters", []):
                    value = wild(parameter.get("schema", {}), spec, rng)
                    if parameter["in"] == "path":
                        text = str(value).replace("\x00", "0").replace("/", "_") or "x"
                        url = url.replace("{" + parameter["name"] + "}", text.strip(".") or "y")
                    elif parameter["name"] == "wait_s":
                        query["wait_s"] = rng.choice(("0", "0.01", "-1", "nan", "1e9", "x"))
                    elif rng.random() < 0.8:
                        query[parameter["name"]] = str(value)[:200]
                body = about.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
                sent = {} if body is None else {"json": wild(body, spec, rng)}
                reply = await client.request(method.upper(), url, params=query, timeout=60.0, **sent)
                answered.setdefault((path, method), set()).add(reply.status_code)
            assert set(answered) == set(operations)

    asyncio.run(story())
    assert {code for codes in answered.values() for code in codes if code >= 500} == set(), answered
    assert {422, 404} <= {code for codes in answered.values() for code in codes}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_schemathesis_finds_no_5xx_and_nothing_undeclared() -> None:
    found = os.environ.get(SCHEMATHESIS_VARIABLE) or shutil.which("schemathesis")
    if found is None:
        pytest.skip(f"needs Schemathesis in an environment of its own, named in ${SCHEMATHESIS_VARIABLE}")
    with tempfile.TemporaryDirectory(prefix="tether-gw-") as folder:
        gateway = GatewayProcess(Path(folder), workers=1)
        try:
            gateway.start()
            (Path(folder) / "schemathesis.toml").write_text(_REFUSALS, encoding="utf-8")
            command = [found, "run", f"{gateway.url}/openapi.json", "-H", f"Authorization: Bearer {gateway.token}"]
            command += ["--exclude-checks", "positive_data_acceptance", "--max-response-time", "60"]
            command += ["--request-timeout", "60", "--max-examples", "20", "--seed", "1", "--max-time", "240"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder)
        finally:
            gateway.stop()
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
