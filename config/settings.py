"""Django's settings, out of environment variables only; ``docs/operations.md`` lists them all."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF
from psycopg.conninfo import make_conninfo

from config import logs
from config.embedded import Server
from config.env import BadSetting, Database, Environment

BASE_DIR = Path(__file__).resolve().parent.parent
ENV = Environment(os.environ)

DRAINBOARD_DATA = Path(ENV.text("DRAINBOARD_DATA", str(BASE_DIR / ".drainboard"))).absolute()
DRAINBOARD_WEB_ROLE = ENV.text("DRAINBOARD_WEB_ROLE", "drainboard_web")
METRICS_TOKEN = ENV.text("METRICS_TOKEN")

DEBUG = ENV.flag("DEBUG", default=False)
# Without a key each process makes its own, enough for a command or a test; wsgi.py insists on one.
SECRET_KEY = ENV.text("SECRET_KEY") or secrets.token_urlsafe(50)
if len(SECRET_KEY) < 32:
    raise BadSetting("SECRET_KEY", "is shorter than 32 characters; give a long random text")
ALLOWED_HOSTS = list(ENV.words("ALLOWED_HOSTS", ("localhost", "127.0.0.1", "[::1]")))
CSRF_TRUSTED_ORIGINS = list(ENV.words("CSRF_TRUSTED_ORIGINS"))

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django.contrib.postgres",
    "django.contrib.humanize",
    "csp",
    "django_htmx",
    "template_partials",
    "config",
    "versioning",
    "runs.approvals",
    "runs",
    "journals",
]

MIDDLEWARE = [
    "config.metrics.measured",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "config.headers.sealed",
    "config.refusals.told",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "NAME": "django",  # template_partials looks for this name
        "BACKEND": "config.rendering.Templates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    }
]

DATABASE = ENV.database("DATABASE_URL") or Database("drainboard", "", "", "", 5432)
# For what the web role may not do (partitions ahead of need); the same database, the owner's role.
# False when an operator gave DATABASE_URL; `up` sets it too, to the socket of its own server.
DATABASE_IS_EMBEDDED = DATABASE.host in ("", str(Server(DRAINBOARD_DATA).socket_folder()))
DATABASE_OWNER = ENV.database("DATABASE_OWNER_URL") or DATABASE
DATABASES = {
    "default": {
        "ENGINE": "config.postgresql",
        "NAME": DATABASE.name,
        "USER": DATABASE.user,
        "PASSWORD": DATABASE.password,
        "HOST": DATABASE.host,
        "PORT": str(DATABASE.port),
        "CONN_MAX_AGE": 0,  # the pool keeps connections; Django refuses both at once
        "CONN_HEALTH_CHECKS": False,  # the engine checks by the socket: without a round trip, and a restart fails no request
        "OPTIONS": {
            **dict(DATABASE.options),
            "pool": {
                "min_size": 1,
                "max_size": ENV.integer("DATABASE_POOL", 16, least=1, most=500),
                "timeout": 10,
                "name": "drainboard",
            },
        },
        "TEST": {"NAME": ENV.text("DRAINBOARD_TEST_DB", "test_drainboard")},
    }
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# What a run of our own may hold: entries, bytes. From 80 % of it the finding near_limit says so.
NATIVE_RUN_LIMITS = (
    ENV.integer("RUN_LIMIT_ENTRIES", 50_000, least=100, most=10_000_000),
    ENV.integer("RUN_LIMIT_MIB", 64, least=1, most=100_000) << 20,
)

# Days after its last import that an imported file's own bytes are kept; 0: for good.
IMPORT_FILES_DAYS = ENV.integer("IMPORT_FILES_DAYS", 0, least=0, most=36_500)

# A message whose worker died comes back after this time; a running job guards itself by its row.
CELERY_VISIBILITY_TIMEOUT_S = ENV.integer("CELERY_VISIBILITY_TIMEOUT_S", 900, least=10, most=86_400)
CELERY_BROKER_URL = ENV.text("CELERY_BROKER_URL", "pgmq://")
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = {"visibility_timeout": CELERY_VISIBILITY_TIMEOUT_S}
if CELERY_BROKER_URL == "pgmq://":
    CELERY_BROKER_TRANSPORT_OPTIONS |= {
        "conn_string": make_conninfo("", **DATABASE.conninfo()),
        "init_extension": False,
        "polling_interval": 0.1,
        "wait_time_seconds": 0,
        "pool_size": 3,
        "pool_timeout": 10,
    }
elif CELERY_BROKER_URL.startswith(("redis://", "rediss://", "unix://")):
    CELERY_BROKER_TRANSPORT_OPTIONS["unacked_restore_throttle"] = 1  # else sweeps come 100 s apart
CELERY_BROKER_POOL_LIMIT = 2
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_TASK_DEFAULT_QUEUE = "drainboard"
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 4  # with pgmq, throughput is the window over the polling interval
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_TASK_PUBLISH_RETRY_POLICY = {"max_retries": 2, "interval_start": 0.1, "interval_step": 0.2}
CELERY_TIMEZONE = "UTC"

AUTH_PASSWORD_VALIDATORS = [
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
# With a folder for collected files the names carry hashes and are cached for ever; without one
# (tests, development) the files are served from where they are.
STATIC_ROOT = ENV.text("DRAINBOARD_STATIC") or None
WHITENOISE_USE_FINDERS = STATIC_ROOT is None
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": (
            "whitenoise.storage.CompressedManifestStaticFilesStorage"
            if STATIC_ROOT
            else "django.contrib.staticfiles.storage.StaticFilesStorage"
        )
    },
}

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "connect-src": [SELF],
        "form-action": [SELF],
        "frame-ancestors": [NONE],
        "base-uri": [NONE],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SAMESITE = "Lax"
if ENV.flag("BEHIND_TLS_PROXY", default=False):
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_SSL_REDIRECT = True
    SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
    SECURE_HSTS_SECONDS = 31_536_000
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True

LOGGING = logs.configuration(
    level=ENV.choice("LOG_LEVEL", "INFO", {"DEBUG", "INFO", "WARNING", "ERROR"}),
    style=ENV.choice("LOG_FORMAT", "json", {"json", "text"}),
)
