# region migration
import leaf_django
from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    operations = [
        migrations.RunSQL("CREATE EXTENSION IF NOT EXISTS leaf", migrations.RunSQL.noop),
        leaf_django.CreateTag("orders", options={"step": 100}),
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", leaf_django.SegmentAutoField(primary_key=True, serialize=False, tag="orders")),
                ("item", models.TextField()),
            ],
        ),
        # endregion
        migrations.CreateModel(
            name="Event",
            fields=[
                ("id", leaf_django.SnowflakeAutoField(primary_key=True, serialize=False)),
                ("what", models.TextField()),
            ],
        ),
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
            name="Visit",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("customer", models.ForeignKey(on_delete=models.CASCADE, to="shop.customer")),
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
