"""The session of this process."""

import math
from contextlib import AbstractContextManager

from django.conf import settings

import turbocql
from turbocql import workers


def session() -> AbstractContextManager[turbocql.Session]:
    """The session, opened by the first `with` of this process and shared by all of its threads."""
    return workers.session(settings.CASSANDRA, idle_s=math.inf)
