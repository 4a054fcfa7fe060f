# region tests
from django.test import TestCase

from shop.models import Order


class Orders(TestCase):
    def test_an_order_has_an_id(self):
        self.assertGreater(Order.objects.create(item="tea").id, 0)
# endregion


class OtherOrders(TestCase):
    """A second class, so that Django has something to run in parallel."""

    def test_many_orders_have_ids(self):
        orders = Order.objects.bulk_create([Order(item="tea") for _ in range(100)])
        self.assertEqual(len({order.id for order in orders}), 100)
