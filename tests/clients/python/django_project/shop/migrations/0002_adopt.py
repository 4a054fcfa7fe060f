# region migration
from django.db import migrations

import shop.fields


class Migration(migrations.Migration):
    dependencies = [("shop", "0001_initial")]

    operations = [
        migrations.RunSQL(
            "SELECT leaf_column_adopt('shop_customer', 'id', 'customers')",
            "SELECT leaf_column_release('shop_customer', 'id')",
            state_operations=[
                migrations.AlterField(
                    model_name="customer",
                    name="id",
                    field=shop.fields.LeafAutoField(
                        primary_key=True, serialize=False, tag="customers"
                    ),
                ),
            ],
        ),
    ]
# endregion
