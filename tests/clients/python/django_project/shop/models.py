# region model
from django.db import models

from leaf_django import SegmentAutoField, SnowflakeAutoField


class Order(models.Model):
    id = SegmentAutoField(primary_key=True, tag="orders")
    item = models.TextField()


class Event(models.Model):
    id = SnowflakeAutoField(primary_key=True)
    what = models.TextField()
# endregion


class Customer(models.Model):
    """Its table had an identity column first."""

    # region adopted
    id = SegmentAutoField(primary_key=True, tag="customers")
    # endregion
    name = models.TextField()


class Visit(models.Model):
    """The same, with snowflake ids."""

    id = SnowflakeAutoField(primary_key=True)
    customer = models.ForeignKey(Customer, models.CASCADE)


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
