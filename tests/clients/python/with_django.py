"""Django 5; the project is in django_project."""

import io
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import django

from checks import INSERTS, Drawn, main, promise

PROJECT = Path(__file__).parent / "django_project"
sys.path.insert(0, str(PROJECT))
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
django.setup()

from django.core.checks import run_checks  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.db.migrations import Migration  # noqa: E402
from django.db.migrations.loader import MigrationLoader  # noqa: E402
from django.db.migrations.optimizer import MigrationOptimizer  # noqa: E402
from django.db.migrations.writer import MigrationWriter  # noqa: E402
from django.db.models.expressions import DatabaseDefault  # noqa: E402
from leaf_django import AdoptColumn, CreateTag, SegmentAutoField  # noqa: E402
from shop.models import Counted, Customer, Event, Naive, Order, Visit  # noqa: E402


# region bulk
def insert_all(items):
    orders = Order.objects.bulk_create([Order(item=item) for item in items])
    return [order.id for order in orders]
# endregion


ITEMS = [f"item {number}" for number in range(1000)]


def scalar(sql, *arguments):
    with connection.cursor() as cursor:
        cursor.execute(sql, arguments)
        return cursor.fetchone()[0]


def statements_of_bulk_create(model):
    table = model._meta.db_table
    before = scalar(INSERTS, table)
    objects = model.objects.bulk_create([model(item=item) for item in ITEMS])
    assert {o.id: o.item for o in objects} == dict(model.objects.values_list("id", "item"))
    return scalar(INSERTS, table) - before


def load(model, pk, fields):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as fixture:
        json.dump([{"model": model, "pk": pk, "fields": fields}], fixture)
        fixture.flush()
        call_command("loaddata", fixture.name, verbosity=0)


def run_tests(*options, **environment):
    return subprocess.run(
        [sys.executable, "manage.py", "test", "--noinput", *options],
        cwd=PROJECT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


def operations():
    """Those of all migrations of the project."""
    loader = MigrationLoader(None)
    nodes = loader.graph.leaf_nodes("shop")
    names = [name for node in nodes for name in loader.graph.forwards_plan(node)]
    return [operation for name in names for operation in loader.get_migration(*name).operations]


@promise("migrations create tag and table, and remove them")
def _():
    step = "SELECT max(step) FROM leaf.stat_segment WHERE biz_tag = 'orders'"
    call_command("migrate", verbosity=0)
    assert scalar(step) == 100
    call_command("migrate", "shop", "zero", verbosity=0)
    assert scalar(step) is None
    call_command("migrate", verbosity=0)


@promise("migrations adopt identity columns, in a transaction and without, and give them back")
def _():
    customer = "INSERT INTO shop_customer (name) VALUES ('x') RETURNING id"
    visit = "INSERT INTO shop_visit (customer_id) VALUES (%s) RETURNING id"
    call_command("migrate", "shop", "zero", verbosity=0)
    call_command("migrate", "shop", "0001", verbosity=0)
    last = scalar(customer)
    first_visit = scalar(visit, last)
    for migration in ["0002", "0001", "0002"]:
        call_command("migrate", "shop", migration, verbosity=0)
        id = scalar(customer)
        assert id > last
        last = id
    assert Customer.objects.create(name="x").id == scalar("SELECT leaf_segment_next('customers')") - 1
    call_command("migrate", "shop", "0003", verbosity=0)
    assert Visit.objects.create(customer_id=last).id > 2**53 > first_visit


@promise("a check names the leaf fields whose columns were not adopted, and migrate does, too")
def _():
    def warnings():
        return [(w.id, w.obj.model) for w in run_checks(databases=["default"])]

    call_command("migrate", "shop", "zero", verbosity=0)
    assert warnings() == []
    call_command("migrate", "shop", "0001", verbosity=0)
    assert warnings() == [("leaf_django.W001", Customer), ("leaf_django.W001", Visit)], warnings()
    said = io.StringIO()
    call_command("migrate", stderr=said, verbosity=0, skip_checks=False)
    assert "come from an identity column, not from leaf_segment_next('customers')" in said.getvalue()
    assert warnings() == []
    field = Customer._meta.get_field("id")
    field.tag = "orders"
    assert warnings() == [("leaf_django.W001", Customer)]
    field.tag = "customers"


@promise("migrations are written so that they can be read, and squashing loses no operation")
def _():
    migration = Migration("0004_again", "shop")
    migration.operations = operations()
    written = {}
    exec(MigrationWriter(migration).as_string(), written)
    read = written["Migration"].operations
    assert MigrationWriter.serialize(read) == MigrationWriter.serialize(operations())
    squashed = MigrationOptimizer().optimize(operations(), "shop")
    assert [type(o) for o in squashed if isinstance(o, (AdoptColumn, CreateTag))] == [
        CreateTag,
        AdoptColumn,
        AdoptColumn,
    ]


@promise("sqlmigrate shows the calls of leaf")
def _():
    said = io.StringIO()
    call_command("sqlmigrate", "shop", "0001", stdout=said)
    call_command("sqlmigrate", "shop", "0002", stdout=said)
    assert "leaf_tag_create('orders', step => 100)" in said.getvalue()
    assert """leaf_column_adopt('"shop_customer"', 'id', 'customers', 'segment')""" in said.getvalue()


@promise("trap: without AdoptColumn, the migration leaves the identity as it is")
def _():
    with connection.schema_editor(collect_sql=True) as editor:
        identity, leaf = Counted._meta.get_field("id"), SegmentAutoField(primary_key=True, tag="orders")
        leaf.set_attributes_from_name("id")
        leaf.model = Counted
        editor.alter_field(Counted, identity, leaf)
    assert not any("leaf" in sql for sql in editor.collected_sql), editor.collected_sql


@promise("makemigrations finds no change, and no command draws an id")
def _():
    orders = Drawn(lambda: scalar("SELECT leaf_segment_next('orders')"))
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
    call_command("migrate", check_unapplied=True, verbosity=0)
    assert orders.count() == 0


@promise("create returns the id, which is drawn, and the database has the default")
def _():
    orders = Drawn(lambda: scalar("SELECT leaf_segment_next('orders')"))
    id = Order.objects.create(item="tea").id
    assert Order.objects.get(item="tea").id == id
    assert scalar("INSERT INTO shop_order (item) VALUES ('cups') RETURNING id") == id + 1
    assert orders.count() == 2
    Order.objects.all().delete()


@promise("bulk_create takes as few statements as with identity, and sets all ids")
def _():
    assert statements_of_bulk_create(Order) == statements_of_bulk_create(Counted) == 1
    orders = Drawn(lambda: scalar("SELECT leaf_segment_next('orders')"))
    ids = insert_all(ITEMS)
    assert ids == sorted(ids) and orders.count() == len(ITEMS)


@promise("a model with snowflake ids has them after create and bulk_create")
def _():
    events = [Event.objects.create(what="a"), *Event.objects.bulk_create([Event(what="b"), Event(what="c")])]
    assert {e.id: e.what for e in events} == dict(Event.objects.values_list("id", "what"))
    ids = [e.id for e in events]
    assert ids == sorted(set(ids)) and ids[0] > 2**53


@promise("trap: with db_default, bulk_create leaves the objects without ids")
def _():
    made = Naive.objects.bulk_create([Naive(item="a"), Naive(item="b")])
    assert [type(o.id) for o in made] == [DatabaseDefault, DatabaseDefault]


@promise("an ordinary role runs tests, in several processes, with leaf in template1")
def _():
    assert not scalar("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    result = run_tests("--parallel", "2")
    assert result.returncode == 0 and "Ran 2 tests" in result.stderr, result.stderr


@promise("trap: without leaf in the template, an ordinary role cannot run tests")
def _():
    result = run_tests(TEST_TEMPLATE="template0")
    assert result.returncode != 0
    assert 'permission denied to create extension "leaf"' in result.stderr, result.stderr


@promise("trap: loaddata does not move the tag past the ids that it loads")
def _():
    next_id = scalar("SELECT leaf_segment_next('orders')") + 1
    load("shop.order", next_id, {"item": "x"})
    try:
        Order.objects.create(item="y")
    except django.db.IntegrityError:
        return
    raise AssertionError("the tag was moved")


@promise("trap: loaddata takes the sequence of an adopted table back from its end")
def _():
    sequence = scalar("SELECT pg_get_serial_sequence('shop_customer', 'id')")
    last = scalar("SELECT last_value FROM " + sequence)
    load("shop.customer", 1000, {"name": "x"})
    assert scalar("SELECT last_value FROM " + sequence) == 1000 < last == 2**63 - 1


main("django")
