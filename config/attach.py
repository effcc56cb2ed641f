"""How a command finds its database: DATABASE_URL, else the embedded PostgreSQL of the data folder.

Nothing here imports Django: it runs before the settings are read, and speaks to them by setting
DATABASE_URL, DATABASE_OWNER_URL and SECRET_KEY for this process and its children.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import quote, urlencode

from config.embedded import SUPERUSER, Server, ServerBusy, ServerFailed, make_data_folder, shared_use, wait_for_users
from config.env import Database, Environment

NO_DATABASE = frozenset({"", "help", "version", "--help", "--version", "-h", "up", "collectstatic"})
AS_OWNER = frozenset({"prepare", "migrate", "makemigrations", "showmigrations", "sqlmigrate", "flush"})
STARTING_S = 120  # how long a command waits for a server that another process is starting


def data_folder(env: Environment, *, base: Path) -> Path:
    """DRAINBOARD_DATA, else ``.drainboard`` beside manage.py."""
    return Path(env.text("DRAINBOARD_DATA", str(base / ".drainboard"))).absolute()


def server_of(data: Path, env: Environment, *, say: Callable[[str], None], holder: str) -> Server:
    """The embedded PostgreSQL of a data folder; not started. ``holder`` is the command that would run it."""
    account = env.text("DRAINBOARD_POSTGRES_ACCOUNT", "nobody")
    return Server(data=data, account_name=account, say=say, holder=holder)


def url_of(database: Database) -> str:
    """The ``postgresql://`` address of a database, over TCP or over a socket's folder."""
    query = {"host": database.host, "port": str(database.port), **dict(database.options)}
    login = quote(database.user, safe="") + (f":{quote(database.password, safe='')}" if database.password else "")
    at = f"{login}@" if login else ""
    return f"postgresql://{at}/{quote(database.name, safe='')}?{urlencode(query, safe='/')}"


def export_addresses(server: Server, env: Environment) -> None:
    """Set DATABASE_URL (web role) and DATABASE_OWNER_URL for this process and its children."""
    from config.roles import DATABASE_NAME, OWNER_ROLE

    web_role = env.text("DRAINBOARD_WEB_ROLE", "drainboard_web")
    os.environ["DATABASE_URL"] = url_of(server.database(web_role, DATABASE_NAME))
    os.environ["DATABASE_OWNER_URL"] = url_of(server.database(OWNER_ROLE, DATABASE_NAME))


def prepare(server: Server, env: Environment) -> None:
    """Roles, database and queue of a started embedded server; quick and harmless when they are there."""
    from config.roles import DATABASE_NAME, OWNER_ROLE, install_queue, prepare_cluster

    web_role = env.text("DRAINBOARD_WEB_ROLE", "drainboard_web")
    prepare_cluster(server.database(SUPERUSER, "postgres"), web_role=web_role)
    install_queue(server.database(OWNER_ROLE, DATABASE_NAME), web=server.database(web_role, DATABASE_NAME))


def prepare_queue(env: Environment) -> None:
    """Install the queue in an external database, if that is where messages are to go."""
    from config.roles import install_queue

    web = env.database("DATABASE_URL")
    if web is not None and env.text("CELERY_BROKER_URL", "pgmq://") == "pgmq://":
        install_queue(env.database("DATABASE_OWNER_URL") or web, web=web)


def export_secret_key(data: Path) -> None:
    """Set SECRET_KEY from the data folder's own file, made at first use and readable by its owner only."""
    if os.environ.get("SECRET_KEY"):
        return
    path = data / "secret_key"
    draft = data / f"secret_key.{secrets.token_hex(4)}"
    if not path.exists():
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(50))
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)  # fails if another start was first: then its key is the key
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    os.environ["SECRET_KEY"] = path.read_text("ascii").strip()


@contextmanager
def attached(arguments: Sequence[str], *, base: Path) -> Iterator[None]:
    """Around one command: give it a database, starting the embedded one only if nobody runs it."""
    command = arguments[1] if len(arguments) > 1 else ""
    env = Environment(os.environ)
    if command in NO_DATABASE:
        yield
        return
    with ExitStack() as stack:
        if env.database("DATABASE_URL") is None:
            _attach(stack, data_folder(env, base=base), env, command=command)
        if command in AS_OWNER and os.environ.get("DATABASE_OWNER_URL"):
            os.environ["DATABASE_URL"] = os.environ["DATABASE_OWNER_URL"]
        yield


def _attach(stack: ExitStack, data: Path, env: Environment, *, command: str) -> None:
    make_data_folder(data)
    server = server_of(data, env, say=_say, holder=f"manage.py {command}")
    deadline = time.monotonic() + STARTING_S
    while True:
        try:
            server.take_lock()
        except ServerBusy:
            if server.answers():
                stack.enter_context(shared_use(data))
                break
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            stack.callback(server.stop)
            stack.callback(wait_for_users, data, say=_say)
            server.start()
            prepare(server, env)
            break
    export_addresses(server, env)
    export_secret_key(data)
    if command not in AS_OWNER and _is_empty(server):
        _fill(data)


def _is_empty(server: Server) -> bool:
    """Whether the database has no tables yet: nobody has started Drainboard with this data folder."""
    import psycopg

    from config.roles import DATABASE_NAME, OWNER_ROLE

    with psycopg.connect(**server.database(OWNER_ROLE, DATABASE_NAME).conninfo()) as connection:
        found = connection.execute("SELECT to_regclass('public.django_migrations')").fetchone()
    return found is None or found[0] is None


def _fill(data: Path) -> None:
    """Make the tables and the first admin, as a start does, so that a first command has what it works on."""
    _say(f"drainboard: a new database in {data} (DRAINBOARD_DATA names another folder)")
    manage = Path(__file__).resolve().parent.parent / "manage.py"
    made = subprocess.run([sys.executable, str(manage), "prepare"], stdout=sys.stderr, check=False)  # noqa: S603
    if made.returncode:
        raise ServerFailed("the new database could not be prepared; what failed is said above")


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
