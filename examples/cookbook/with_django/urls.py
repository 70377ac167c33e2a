"""A view that uses both databases: users are in the ORM's database, and visits in Cassandra."""

import datetime

from cassandra_session import session
from django.contrib.auth.models import User
from django.http import HttpRequest, JsonResponse
from django.shortcuts import get_object_or_404
from django.urls import path
from django.utils import timezone
from django.views.decorators.csrf import csrf_exempt

INSERT = "INSERT INTO visits (user_id, at, page) VALUES (?, ?, ?)"
SELECT = "SELECT at, page FROM visits WHERE user_id = ? AND at >= ? LIMIT 50"


@csrf_exempt
def visits(request: HttpRequest, username: str) -> JsonResponse:
    """POST writes a visit, GET returns the visits of the last week, newest first."""
    user = get_object_or_404(User, username=username)
    now = timezone.now()
    with session() as cassandra:
        if request.method == "POST":
            # turbocql prepares a statement with values once per process.
            cassandra.execute(INSERT, (user.id, now, request.POST["page"]), idempotent=True)
            return JsonResponse({"at": now}, status=201)
        week = now - datetime.timedelta(days=7)
        rows = cassandra.execute(SELECT, (user.id, week), rows="dict").all()
    return JsonResponse({"user": user.username, "visits": rows})


urlpatterns = [path("users/<username>/visits", visits)]
