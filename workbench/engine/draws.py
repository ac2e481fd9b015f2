"""Seeds of the gate's random draws, derived from a secret of the session."""

import hashlib
import os
import secrets
from pathlib import Path

from workbench.errors import WorkbenchError
from workbench.gate.correctness.cases import SEED_BYTES

_SECRET_BYTES = 32


def session_secret(state: Path) -> bytes:
    """What a session's draws for its own edits are derived from; made once, for its owner's eyes.

    With it a step that is begun before its turn, or begun again after a crash, is judged on the
    same sample as if nothing had happened. Candidates run where it cannot be read; what a person,
    a model or an outside agent wrote is always judged on fresh draws. Raises WorkbenchError
    when it can be neither read nor written.
    """
    path = state / "judge.secret"
    try:
        if not path.exists():
            draft = state / f".judge.secret.{secrets.token_hex(4)}"
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            draft.rename(path)
        found = path.read_bytes()
    except OSError as fault:
        raise WorkbenchError(
            f"the session's secret cannot be kept: {fault.strerror}",
            where=str(path),
            todo="see that the disk has space and the folder is yours",
        ) from fault
    if len(found) != _SECRET_BYTES:
        raise WorkbenchError("the session's secret is damaged", where=str(path), todo="remove it")
    return found


def seed_for(secret: bytes, number: int, source: str) -> bytes:
    """The gate's seed for one candidate: another for every number and every text."""
    keyed = hashlib.blake2b(key=secret, digest_size=SEED_BYTES)
    keyed.update(number.to_bytes(8, "big") + source.encode())
    return keyed.digest()
