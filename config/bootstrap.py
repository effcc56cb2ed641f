"""Make ``.venv`` out of a lock file: ``python3 config/bootstrap.py run|test``. Standard library only.

Any Python 3 must be able to read this file, so that an old one can say what is wrong: no f-strings, no
newer syntax. The stamp inside ``.venv`` is written last, so an interrupted installation repeats itself.
"""

import hashlib
import os
import subprocess
import sys

LEAST = (3, 11)
BASE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(BASE, ".venv")
LOCKS = {"run": "requirements.lock", "test": "requirements-test.lock"}


def main(purpose):
    """Return 0 with a ready ``.venv``, else 1 after one sentence that says what to do."""
    problem = trouble()
    if problem:
        return complain(problem)
    import fcntl

    with open(os.path.join(BASE, "Makefile")) as lock:  # two starts: the second waits, then finds all done
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = {name: stamp(name) for name in LOCKS}
        present = stamps()
        if wanted[purpose] in present:
            return 0
        problem = install(purpose, fresh=wanted["run"] not in present)
        if problem:
            return complain(problem)
        with open(os.path.join(VENV, "stamp"), "w") as file:
            file.write("\n".join(sorted({wanted["run"], wanted[purpose]})) + "\n")
    return 0


def trouble():
    """What keeps this Python from making the environment, else an empty string."""
    found = ".".join(str(part) for part in sys.version_info[:3])
    if sys.version_info < LEAST:
        return (
            "Drainboard needs Python 3.11 or newer; {} is {}. "
            "Install a newer one, or name it: make run PYTHON=/path/to/python3.11"
        ).format(sys.executable, found)
    if os.name != "posix":
        return "Drainboard runs on Linux and macOS; on Windows use WSL."
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        return (
            "This Python ({}) cannot make virtual environments. "
            "Install the missing module: apt install python{}.{}-venv"
        ).format(sys.executable, *sys.version_info[:2])
    return ""


def stamp(purpose):
    """One line that changes with the lock, the Python and the place of the checkout."""
    digest = hashlib.sha256()
    with open(os.path.join(BASE, LOCKS[purpose]), "rb") as file:
        digest.update(file.read())
    digest.update("\0".join((sys.version, os.path.realpath(sys.executable), BASE)).encode())
    return "{} {}".format(purpose, digest.hexdigest())


def stamps():
    """What ``.venv`` holds whole."""
    try:
        with open(os.path.join(VENV, "stamp")) as file:
            return set(file.read().splitlines())
    except OSError:
        return set()


def install(purpose, fresh):
    """Make or extend ``.venv``; returns what went wrong, else an empty string."""
    say("Installing packages into .venv ...")
    if fresh:
        made = subprocess.call([sys.executable, "-m", "venv", "--clear", VENV])
        if made != 0:
            return "The virtual environment could not be made in {}; is the folder writable?".format(VENV)
    pip = [os.path.join(VENV, "bin", "python"), "-m", "pip", "-qq", "--disable-pip-version-check", "install"]
    lock = os.path.join(BASE, LOCKS[purpose])
    if subprocess.call([*pip, "--require-hashes", "--only-binary", ":all:", "-r", lock]) != 0:
        return (
            "The packages of {} could not be installed (see above). The installation needs a package index: "
            "the usual one, or the one that PIP_INDEX_URL or pip.conf names."
        ).format(LOCKS[purpose])
    with open(os.path.join(site_packages(), "drainboard-client.pth"), "w") as file:
        file.write(os.path.join(BASE, "client", "src") + "\n")
    return ""


def site_packages():
    """Where ``.venv`` keeps its packages."""
    return os.path.join(VENV, "lib", "python{}.{}".format(*sys.version_info[:2]), "site-packages")


def say(text):
    sys.stderr.write(text + "\n")


def complain(problem):
    """Say it and give the exit code of a failure."""
    say("drainboard: " + problem)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "run"))
