# region migration
import leaf_django
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]

    operations = [
        leaf_django.AdoptColumn(
            model_name="customer",
            name="id",
            field=leaf_django.SegmentAutoField(primary_key=True, serialize=False, tag="customers"),
        ),
    ]
# endregion
