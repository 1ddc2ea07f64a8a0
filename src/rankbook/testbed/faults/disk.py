"""A small disk of its own, which can be filled: a tmpfs, where this process may mount one."""

import os
import subprocess
from pathlib import Path

SIZE = 1 << 20  # bytes; a checkpoint of the toy model has some thousand
BLOCK = 1 << 12


class CannotInject(Exception):
    """Something that this machine, or this process, may not have; the message says why."""


class CannotMount(CannotInject):
    """This process may not mount a file system; the message says what mount said."""


class SmallDisk:
    """A tmpfs mounted at `folder`, until the end of the ``with``. Raises CannotMount."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __enter__(self) -> "SmallDisk":
        self.folder.mkdir(parents=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "rankbook-faults", self.folder]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except FileNotFoundError:
            raise CannotMount("there is no mount command") from None
        except subprocess.CalledProcessError as error:
            raise CannotMount(error.stderr.strip()) from None
        return self

    def __exit__(self, *error) -> None:
        # lazily: it goes when the last file of a killed process is closed
        subprocess.run(["umount", "--lazy", self.folder], check=True, capture_output=True)

    def fill(self) -> None:
        """Write until nothing more goes in."""
        file = os.open(self.folder / "ballast", os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            while os.write(file, bytes(BLOCK)):
                pass
        except OSError:  # no space left on device
            pass
        finally:
            os.close(file)

    def free(self) -> None:
        """Give the space back."""
        (self.folder / "ballast").unlink(missing_ok=True)
