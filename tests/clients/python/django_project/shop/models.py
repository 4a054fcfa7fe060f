# region model
from django.db import models

from shop.fields import LeafAutoField


class Order(models.Model):
    id = LeafAutoField(primary_key=True, tag="orders")
    item = models.TextField()
# endregion


class Customer(models.Model):
    """Its table had an identity column first."""

    # region adopted
    id = LeafAutoField(primary_key=True, tag="customers")
    # endregion
    name = models.TextField()


class Counted(models.Model):
    """The model to compare with: identity."""

    item = models.TextField()


class Naive(models.Model):
    """What does not work: a default of the database for the primary key."""

    # region naive
    id = models.BigIntegerField(
        primary_key=True,
        db_default=models.Func(models.Value("orders"), function="leaf_segment_next"),
    )
    # endregion
    item = models.TextField()
