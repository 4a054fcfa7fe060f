import leaf_django
from django.db import migrations


class Migration(migrations.Migration):
    """Beside the one before, without a transaction around it, and with snowflake ids."""

    atomic = False
    dependencies = [("shop", "0002_adopt")]

    operations = [
        leaf_django.AdoptColumn(
            model_name="visit",
            name="id",
            field=leaf_django.SnowflakeAutoField(primary_key=True, serialize=False),
        ),
    ]
