"""The settings of a Django project: a database for the ORM, and a cluster for turbocql."""

import os

import turbocql

SECRET_KEY = os.environ["DJANGO_SECRET_KEY"]
ROOT_URLCONF = "urls"
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes"]
ALLOWED_HOSTS = ["*"]
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ["ORM_FILE"]}}

# Reads TURBOCQL_CONTACT_POINTS and so on when Django starts. Nothing connects here.
CASSANDRA = turbocql.Config.from_env(application_name="shop")
