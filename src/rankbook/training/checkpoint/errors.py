"""What is said when a checkpoint cannot be written or read: where, why, and what to do."""

import contextlib
import errno
from collections.abc import Iterator


class CheckpointError(OSError):
    """A checkpoint cannot be written or read: one sentence that says where, why, what to do."""


class Damaged(ValueError):
    """What a checkpoint holds is not what was written."""


_SPACE = "free some space there or name a folder elsewhere"
_FOLDER = "name a folder, not a file"
_RIGHTS = "name a folder that this process may read and write"
_CURES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), _SPACE),
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), _FOLDER),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), _RIGHTS),
}


@contextlib.contextmanager
def explain_oserror(what: str) -> Iterator[None]:
    """Say an OSError in one sentence: `what` went wrong, why, and what to do if that is known.

    Raises it as a CheckpointError.
    """
    try:
        yield
    except CheckpointError:
        raise
    except OSError as error:
        why = error.strerror.lower() if error.strerror else f"{error}"
        cure = _CURES.get(error.errno or 0)
        raise CheckpointError(f"{what}: {'; '.join(filter(None, (why, cure)))}") from error
