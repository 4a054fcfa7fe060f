# region field
from django.db import models


class LeafAutoField(models.BigAutoField):
    """A primary key drawn from a tag. To Django it is filled in by the database, as identity is."""

    def __init__(self, *args, tag, **kwargs):
        self.tag = tag
        super().__init__(*args, **kwargs)

    def deconstruct(self):
        name, path, args, kwargs = super().deconstruct()
        return name, path, args, {**kwargs, "tag": self.tag}

    def db_type_suffix(self, connection):
        return f"DEFAULT leaf_segment_next('{self.tag}')"
# endregion
