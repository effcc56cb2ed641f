"""The WSGI application that granian serves."""

import os
import signal

from django.core.wsgi import get_wsgi_application

from config.deathsignal import tie_this_process
from config.env import BadSetting

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

if not os.environ.get("SECRET_KEY"):
    raise BadSetting("SECRET_KEY", "is not set; all web processes need the same long random text")
if os.environ.get("DRAINBOARD_SUPERVISED"):
    tie_this_process(signal.SIGKILL)  # a killed granian must not leave its workers on the port

_django = get_wsgi_application()

from config.hot import with_hot_path  # noqa: E402 - needs the settings and apps that the line before loaded
from config.slowbody import refusing_slow_bodies  # noqa: E402

application = refusing_slow_bodies(with_hot_path(_django))
