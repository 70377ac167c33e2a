"""Uses cqlengine as django-cassandra-engine does: columns get the attributes of Django's fields."""

from __future__ import annotations

import datetime
import os
import sys
import uuid
import warnings
from typing import Any

os.environ["CQLENG_ALLOW_SCHEMA_MANAGEMENT"] = "1"
warnings.simplefilter("ignore")

from cassandra.cqlengine import columns, connection, management, models  # noqa: E402
from cassandra.cqlengine.query import BatchQuery, DoesNotExist  # noqa: E402
from tests.accel.programs.running import arguments, attempt, print_native  # noqa: E402


def shown(value: Any) -> str:
    """Returns the value as text. In the text, the elements of sets are sorted."""
    return repr(sorted(value) if isinstance(value, set) else value)


def fields_of(article: Any) -> dict[str, str]:
    return {name: shown(value) for name, value in article.items()}


def change_columns() -> None:
    """Gives all columns the attributes that Django's forms and serializers read from fields."""
    column: Any = columns.Column
    column.has_default = lambda self: self.default is not None
    column.get_default = lambda self: self.default() if callable(self.default) else self.default
    column.attname = property(lambda self: self.column_name)
    column.verbose_name = property(lambda self: self.db_field_name.replace("_", " "))
    column.is_relation, column.auto_created, column.remote_field = False, False, None
    column.get_prep_value = lambda self, value: self.to_database(value)
    column.value_from_object = lambda self, instance: getattr(instance, self.attname)


change_columns()


class Article(models.Model):  # type: ignore[misc]
    __table_name__ = "articles"
    site = columns.Text(primary_key=True)
    id = columns.UUID(primary_key=True, default=uuid.uuid4)
    title = columns.Text(required=True, max_length=30, db_field="head_line")
    views = columns.Integer(default=0)
    rating = columns.Double(default=lambda: 2.5)
    published = columns.DateTime(default=datetime.datetime(2026, 11, 23, 10, 30))
    tags = columns.Set(columns.Text)
    links = columns.Map(columns.Text, columns.Integer)


def main() -> None:
    options = arguments()
    connection.setup(options.pop("contact_points"), sys.argv[3], **options)
    connection.get_session().default_timeout = 60
    management.sync_table(Article)
    ids = [uuid.uuid5(uuid.NAMESPACE_DNS, str(number)) for number in range(30)]
    for number, key in enumerate(ids):
        article = Article(site="main", id=key, title=f"it's {number}", views=number)
        article.tags, article.links = {"new", str(number % 3)}, {"a": number}
        article.save()
    for article in Article.objects(site="main").limit(8):
        for field in Article._columns.values():
            value = shown(field.value_from_object(article))
            print(field.attname, field.verbose_name, value, field.has_default())
    article = Article.objects.get(site="main", id=ids[4])
    print(article.rating, article._columns["title"].get_prep_value("a"), fields_of(article))
    article.update(views=99, tags={"old"})
    print(fields_of(Article.get(site="main", id=ids[4])), Article.objects(site="main").count())
    with BatchQuery() as batch:
        for key in ids[:5]:
            Article.objects(site="main", id=key).batch(batch).delete()
        Article.batch(batch).create(site="other", id=ids[0], title="batch")
    # `change_columns` has set these two attributes for all columns. Between two queries, the
    # program now replaces the attributes for `Integer` columns.
    columns.Integer.get_default = lambda self: 7
    columns.Integer.has_default = property(lambda self: True)
    print([fields_of(article) for article in Article.objects(site="other")])
    print(fields_of(Article.create(site="third", id=ids[1], title="defaults")))
    for wrong in ({"title": None}, {"title": "x" * 31}, {"views": "many"}, {"nothing": 1}):
        attempt(Article.create, **{"site": "main", "id": ids[0], "title": "t", **wrong})
    try:
        Article.get(site="main", id=ids[0])
    except DoesNotExist as error:
        print(error)
    print_native()
    connection.unregister_connection("default")


if __name__ == "__main__":
    main()
