"""``manage.py up``: everything that Drainboard needs, in one process tree, until it is told to stop."""

from __future__ import annotations

import os
import signal
import socket
import time
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.core.management import BaseCommand, CommandError

from config import attach, launch
from config.embedded import Server, ServerBusy, make_data_folder
from config.env import Environment
from config.processes import Child, stop_all

LOOK_S = 0.5
BUSY_WAIT_S = 60


class Place(NamedTuple):
    """Where to serve."""

    host: str
    port: int


class Stopping(Exception):
    """A signal asked us to stop."""


class Command(BaseCommand):
    """Start PostgreSQL (unless DATABASE_URL is set), migrate, serve, work; stop on SIGINT or SIGTERM."""

    help = "Start everything: PostgreSQL, web server, worker and scheduler."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="", help="address to serve on (HOST, else 127.0.0.1)")
        parser.add_argument("--port", default="", help="port to serve on (PORT, else 8765)")

    def handle(self, *args: Any, **options: Any) -> None:
        for name in ("host", "port"):
            if options[name]:
                os.environ[name.upper()] = options[name]
        env = Environment(os.environ)
        place = Place(env.text("HOST", "127.0.0.1"), env.integer("PORT", 8765, least=1, most=65_535))
        refuse_taken_port(place)
        data = attach.data_folder(env, base=settings.BASE_DIR)
        make_data_folder(data)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _stop)
        with ExitStack() as stack:
            try:
                self._run(stack, env, data=data, place=place)
            except Stopping:
                self.say("Stopping …")
            except launch.NotServing as error:
                raise CommandError(str(error)) from error
            finally:
                for number in (signal.SIGINT, signal.SIGTERM):
                    signal.signal(number, signal.SIG_IGN)  # stopping is on its way and bounded
        self.say("Stopped.")

    def _run(self, stack: ExitStack, env: Environment, *, data: Path, place: Place) -> None:
        server = None
        if env.database("DATABASE_URL") is None:
            server = self._embedded(stack, env, data)
        else:
            attach.prepare_queue(env)
        attach.export_secret_key(data)
        launch.set_up(data=data)
        children = launch.children(env, data=data, host=place.host, port=place.port)
        stack.callback(stop_all, children, say=self.say)
        for child in children:
            child.start()
        launch.wait_until_served(children[0], host=place.host, port=place.port)
        where = launch.address(place.host, place.port)
        self.say(f"Drainboard is at {where}   (Ctrl-C stops it; logs are in {data / 'logs'})")
        filling = launch.populating(env, data=data, url=where.rstrip("/"))
        if filling is not None:
            self.say("Example runs are being filled in (EMPTY=1 leaves them out) …")
            children.append(filling)
            filling.start()
        self._watch(children, server)

    def _embedded(self, stack: ExitStack, env: Environment, data: Path) -> Server:
        """Run the data folder's PostgreSQL, after a short command that has it now is done."""
        server = attach.server_of(data, env, say=self.say, holder="manage.py up")
        deadline = time.monotonic() + BUSY_WAIT_S
        while True:
            try:
                server.take_lock()
                break
            except ServerBusy as busy:
                if busy.holder.startswith(server.holder) or time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        stack.callback(server.stop)
        server.start()
        attach.prepare(server, env)
        attach.export_addresses(server, env)
        return server

    def _watch(self, children: list[Child], server: Server | None) -> None:
        while True:
            time.sleep(LOOK_S)
            if server is not None and server.process is not None and server.process.poll() is not None:
                self.say("PostgreSQL ended and starts again; what was acknowledged is kept.")
                server.start()
            for child in children:
                child.watch(say=self.say)
                child.limit_log()

    def say(self, text: str) -> None:
        """One line to the terminal, at once."""
        self.stdout.write(text)
        self.stdout.flush()


def _stop(number: int, frame: object) -> None:
    raise Stopping


def refuse_taken_port(place: Place) -> None:
    """Raise CommandError, before anything is started, if the address cannot be served on."""
    host, port = place
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except socket.gaierror:
        raise CommandError(f"HOST: {host!r} is no address of this machine") from None
    except OSError as error:
        advice = f"Choose another: PORT={port + 1} make run" if port < 65_535 else "Choose another with PORT=…"
        raise CommandError(f"cannot serve on {host} port {port} ({error.strerror}). {advice}") from None
