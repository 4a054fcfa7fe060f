"""Django 5; the project is in django_project."""

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

from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.db.models.expressions import DatabaseDefault  # noqa: E402
from shop.fields import LeafAutoField  # noqa: E402
from shop.models import Counted, Customer, Naive, Order  # noqa: E402


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


def run_tests(*options, **environment):
    return subprocess.run(
        [sys.executable, "manage.py", "test", "--noinput", *options],
        cwd=PROJECT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@promise("migrations create tag and table, and remove them")
def _():
    call_command("migrate", verbosity=0)
    call_command("migrate", "shop", "zero", verbosity=0)
    call_command("migrate", verbosity=0)


@promise("a migration adopts an identity column, and gives it back")
def _():
    insert = "INSERT INTO shop_customer (name) VALUES ('x') RETURNING id"
    call_command("migrate", "shop", "0001", verbosity=0)
    last = scalar(insert)
    for migration in ["0002", "0001", "0002"]:
        call_command("migrate", "shop", migration, verbosity=0)
        id = scalar(insert)
        assert id > last
        last = id
    assert Customer.objects.create(name="x").id == scalar("SELECT leaf_segment_next('customers')") - 1


@promise("trap: without leaf_column_adopt, the migration leaves the identity as it is")
def _():
    with connection.schema_editor(collect_sql=True) as editor:
        identity, leaf = Counted._meta.get_field("id"), LeafAutoField(primary_key=True, tag="orders")
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
    with tempfile.NamedTemporaryFile("w", suffix=".json") as fixture:
        fixture.write(f'[{{"model": "shop.order", "pk": {next_id}, "fields": {{"item": "x"}}}}]')
        fixture.flush()
        call_command("loaddata", fixture.name, verbosity=0)
    try:
        Order.objects.create(item="y")
    except django.db.IntegrityError:
        return
    raise AssertionError("the tag was moved")


main("django")
