"""Django's settings, out of environment variables only; ``docs/operations.md`` lists them all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF

from config.env import Database, Environment

BASE_DIR = Path(__file__).resolve().parent.parent
ENV = Environment(os.environ)

DRAINBOARD_DATA = Path(ENV.text("DRAINBOARD_DATA", str(BASE_DIR / ".drainboard"))).absolute()
DRAINBOARD_WEB_ROLE = ENV.text("DRAINBOARD_WEB_ROLE", "drainboard_web")

DEBUG = ENV.flag("DEBUG", default=False)
SECRET_KEY = ENV.text("SECRET_KEY", "only-for-development-and-tests-0000000000000000000000")
ALLOWED_HOSTS = list(ENV.words("ALLOWED_HOSTS", ("localhost", "127.0.0.1", "[::1]", "testserver")))

INSTALLED_APPS = [
    "django.contrib.admin",
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
    "runs",
    "journals",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
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
        "BACKEND": "django.template.backends.django.DjangoTemplates",
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


def _django_database(database: Database, *, test_name: str) -> dict[str, Any]:
    """The pool hands out connections, so CONN_MAX_AGE must stay 0 (Django refuses both)."""
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": database.name,
        "USER": database.user,
        "PASSWORD": database.password,
        "HOST": database.host,
        "PORT": str(database.port),
        "CONN_MAX_AGE": 0,
        "OPTIONS": {**dict(database.options), "pool": {"min_size": 1, "max_size": 16, "timeout": 10}},
        "TEST": {"NAME": test_name},
    }


DATABASES = {
    "default": _django_database(
        ENV.database("DATABASE_URL") or Database("drainboard", "postgres", "", "127.0.0.1", 5432),
        test_name=ENV.text("DRAINBOARD_TEST_DB", "test_drainboard"),
    )
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
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
