"""Skills in Python: compiled and executed from the very bytes that were verified.

Python's own import would read the file a second time, or execute a cached `.pyc` that nobody signed. Here the source
is read once, verified, compiled from memory and executed into a module of its own, which no cache and no search path
knows.
"""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from tether.errors import Fault, InvalidInputError
from tether.signing.statement import Kind
from tether.signing.verify import Verifier


def load_skill(verifier: Verifier, path: Path, name: str | None = None) -> ModuleType:
    """The module of a signed skill, executed once. name: what it must be signed as.

    Raises SignatureRefusedError, InvalidInputError where the source is no Python; what the module's own code raises
    comes as it is.
    """
    signed = verifier.load(path, Kind.SKILL, name)
    module = ModuleType(f"tether_skill_{signed.signature.statement.sha256[:16]}")
    module.__file__ = str(path)
    try:
        code = compile(signed.data, str(path), "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        raise InvalidInputError("skill", [Fault(str(path), str(error), "Python source")]) from error
    if verifier.admit(signed) is not signed.data:
        raise AssertionError("what was admitted is not what was compiled")
    exec(code, module.__dict__)  # noqa: S102 - verified above, from memory
    return module
