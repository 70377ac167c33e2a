"""Makes the session of this process."""

import math
from contextlib import AbstractContextManager

from django.conf import settings

import turbocql
from turbocql import workers


def session() -> AbstractContextManager[turbocql.Session]:
    """Returns the session. The first `with` of this process opens it, and all threads share it."""
    return workers.session(settings.CASSANDRA, idle_s=math.inf)
