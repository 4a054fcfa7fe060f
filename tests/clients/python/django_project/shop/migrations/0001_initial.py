# region migration
from django.db import migrations, models

import shop.fields


class Migration(migrations.Migration):
    initial = True

    operations = [
        migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS leaf", migrations.RunSQL.noop),
        migrations.RunSQL("SELECT leaf_tag_create('orders')", "SELECT leaf_tag_drop('orders')"),
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", shop.fields.LeafAutoField(primary_key=True, serialize=False, tag="orders")),
                ("item", models.TextField()),
            ],
        ),
        # endregion
        migrations.CreateModel(
            name="Customer",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("name", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="Counted",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("item", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="Naive",
            fields=[
                (
                    "id",
                    models.BigIntegerField(
                        db_default=models.Func(models.Value("orders"), function="leaf_segment_next"),
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("item", models.TextField()),
            ],
        ),
    ]
