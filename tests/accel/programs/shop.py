"""A shop like that of a web application. It has views, and models with methods of their own.

    python shop.py HOST PORT

Prints the results of all views as JSON, by their names. It drops and creates its keyspace. It does
not import turbocql.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import uuid
import warnings
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, ClassVar

os.environ["CQLENG_ALLOW_SCHEMA_MANAGEMENT"] = "1"
warnings.simplefilter("ignore")

from cassandra.cqlengine import ValidationError, columns, connection, management, models  # noqa: E402
from cassandra.cqlengine.query import BatchQuery, LWTException, ModelQuerySet  # noqa: E402
from cassandra.cqlengine.usertype import UserType  # noqa: E402

KEYSPACE = "accelerated_shop"
NOW = datetime.datetime(2026, 11, 23, 10, 30, 15, 250_000)


class Json(columns.Text):  # type: ignore[misc]
    """A column of any JSON value, stored as text."""

    def to_python(self, value: Any) -> Any:
        return json.loads(value) if isinstance(value, str) else value

    def to_database(self, value: Any) -> Any:
        return None if value is None else json.dumps(value, sort_keys=True)

    def validate(self, value: Any) -> Any:
        return value


class Available(ModelQuerySet):  # type: ignore[misc]
    """A query set with an additional method."""

    def of_maker(self, maker: str) -> Any:
        return self.filter(maker=maker).limit(50)


class Dated(models.Model):  # type: ignore[misc]
    """An abstract model with the columns that `Customer` and `Product` share."""

    __abstract__ = True
    created = columns.DateTime()
    changed = columns.DateTime()
    clock: ClassVar[list[datetime.datetime]] = [NOW]

    def save(self) -> Any:
        self.clock[0] += datetime.timedelta(milliseconds=1)
        if self.created is None:
            self.created = self.clock[0]
        self.changed = self.clock[0]
        return super().save()


class Address(UserType):  # type: ignore[misc]
    street = columns.Text()
    number = columns.Integer()


class Customer(Dated):
    id = columns.UUID(primary_key=True, default=uuid.uuid4)
    email = columns.Text(required=True, max_length=40)
    address = columns.UserDefinedType(Address)
    settings = Json(default=lambda: {"language": "en"})


class Product(Dated):
    __queryset__ = Available
    maker = columns.Text(primary_key=True)
    number = columns.Integer(primary_key=True, clustering_order="DESC")
    name = columns.Text(db_field="title")
    price = columns.Decimal()
    weight = columns.Double(default=1.5)
    tags = columns.Set(columns.Text)
    sizes = columns.List(columns.Integer)
    stock = columns.Map(columns.Text, columns.Integer)
    maker_note = columns.Text(static=True)

    @property
    def label(self) -> str:
        return f"{self.name}: {self.price}"


class Visits(models.Model):  # type: ignore[misc]
    page = columns.Text(primary_key=True)
    count = columns.Counter()


def shown(instance: Any) -> Any:
    found = {name: repr(value) for name, value in instance.items()}
    if "address" in found and instance.address is not None:
        found["address"] = repr(dict(instance.address.items()))
    if "tags" in found:
        found["tags"] = repr(sorted(instance.tags or ()))
    return type(instance).__name__, found


def views() -> Iterator[tuple[str, Any]]:
    """Runs the views that requests to the shop would call. Yields their names and results."""
    ids = [uuid.uuid5(uuid.NAMESPACE_DNS, f"customer{number}") for number in range(5)]
    for number, key in enumerate(ids):
        at = Address(street=f"It's Street {number}", number=number)
        created = Customer.create(id=key, email=f"c{number}@example.org", address=at)
        yield f"customer {number}", shown(created)
    for wrong in ({"email": None}, {"email": "x" * 41}, {"email": 5}, {"nothing": 1}):
        try:
            Customer.create(id=ids[0], **wrong)
        except ValidationError as error:
            yield f"invalid customer {wrong}", str(error)
    customer = Customer.get(id=ids[0])
    customer.settings = {"language": "it", "pages": [1, 2]}
    customer.address.number = 7
    yield "saved customer", shown(customer.save())
    yield "customer that was read", shown(Customer.get(id=ids[0]))
    for number in range(120):
        Product.create(
            maker="acme" if number % 3 else "other",
            number=number,
            name=f"Thing '{number}'",
            price=Decimal(number) / 4,
            tags={"new", f"t{number % 4}"},
            sizes=list(range(number % 5)),
            stock={"here": number, "there": 1},
            maker_note="best",
        )
    yield "products of a maker", [shown(product) for product in Product.objects.of_maker("acme")]
    yield "labels", [product.label for product in Product.objects(maker="other", number__gte=100)]
    yield "count", Product.objects(maker="acme").count()
    first = Product.objects(maker="acme").first()
    first.price, first.name = Decimal("9.99"), None
    first.tags.add("sale")
    first.sizes.append(99)
    del first.stock["there"]
    yield "saved product", shown(first.save())
    yield "product that was read", shown(Product.get(maker="acme", number=first.number))
    first.update(weight=2.25, tags=set())
    yield "updated product", shown(Product.get(maker="acme", number=first.number))
    prices = Product.objects(maker="acme").limit(4).values_list("number", "price")
    yield "numbers and prices", list(prices)
    names = [
        shown(product)
        for product in Product.objects(maker="other").only(["name"]).order_by("number")
    ]
    yield "names", names
    with BatchQuery() as batch:
        Product.batch(batch).create(maker="batch", number=1, name="a", price=1)
        first.batch(batch).update(price=Decimal(5))
        Product.objects(maker="other", number=0).batch(batch).delete()
    labels = sorted(
        (product.maker, product.number, product.label)
        for product in Product.objects.all().limit(500)
    )
    yield "after a batch", labels
    try:
        Product.if_not_exists().create(maker="batch", number=1)
    except LWTException as error:
        yield "existing product", sorted(error.existing)
    Product.ttl(1000).timestamp(datetime.timedelta(seconds=5)).create(maker="brief", number=1)
    yield "product with a TTL", shown(Product.objects(maker="brief").first())
    for _ in range(3):
        Visits(page="/").update(count=2)
    yield "visits", shown(Visits.get(page="/"))
    Product.objects(maker="batch").delete()
    first.delete()
    counts = Product.objects(maker="acme").count(), Product.objects(maker="batch").count()
    yield "counts after deletions", counts
    yield "equal", Product(maker="a", number=1) == Product(maker="a", number=1)
    yield "repr", repr(Product(maker="a"))


def main() -> None:
    connection.setup([sys.argv[1]], KEYSPACE, port=int(sys.argv[2]), protocol_version=4)
    replication = {"class": "SimpleStrategy", "replication_factor": 1}
    session = connection.get_session()
    session.default_timeout = 60
    session.execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    session.execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {replication}")
    management.sync_type(KEYSPACE, Address)
    for model in (Customer, Product, Visits):
        management.sync_table(model)
    print(json.dumps(dict(views()), default=repr))
    connection.unregister_connection("default")


if __name__ == "__main__":
    main()
