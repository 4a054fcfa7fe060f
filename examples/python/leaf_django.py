"""Primary keys of Django's models that leaf draws, and operations for migrations.

To Django, the fields are filled in by the database, as identity columns are; only the default
in the database is another one.
"""

from django.core.checks import Warning
from django.db import connections, models, router
from django.db.migrations.operations.base import Operation
from django.db.migrations.operations.fields import FieldOperation


class _LeafField(models.BigAutoField):
    def db_type_suffix(self, connection):
        return f"DEFAULT {self.draw}"

    def check(self, databases=None, **kwargs):
        found = super().check(databases=databases, **kwargs)
        model = self.model
        for alias in databases or ():
            connection = connections[alias]
            if (
                connection.vendor == "postgresql"
                and model._meta.can_migrate(connection)
                and router.allow_migrate_model(alias, model)
            ):
                found += self._check_default(connection)
        return found

    def _check_default(self, connection):
        """Django takes this field and an identity column for the same, and changes no default."""
        table = connection.ops.quote_name(self.model._meta.db_table)
        with connection.cursor() as cursor:
            cursor.execute(
                """
                SELECT CASE WHEN a.attidentity = '' THEN pg_get_expr(d.adbin, d.adrelid)
                            ELSE 'an identity column' END
                  FROM pg_attribute AS a
                  LEFT JOIN pg_attrdef AS d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
                 WHERE a.attrelid = to_regclass(%s) AND a.attname = %s AND NOT a.attisdropped""",
                [table, self.column],
            )
            row = cursor.fetchone()
        # The server writes the name of the tag as 'orders'::text.
        if row is None or self.draw in (row[0] or "").replace("'::text", "'"):
            return []
        return [
            Warning(
                f"The ids of table {table} in database '{connection.alias}' come from "
                f"{row[0] or 'no default'}, not from {self.draw}.",
                hint="AlterField changes no default: let a migration adopt the column, with "
                "leaf_django.AdoptColumn, or set the default for another tag, with RunSQL.",
                obj=self,
                id="leaf_django.W001",
            )
        ]


class SegmentAutoField(_LeafField):
    """A primary key whose ids are drawn from a tag."""

    def __init__(self, *args, tag, **kwargs):
        self.tag = tag
        super().__init__(*args, **kwargs)

    def deconstruct(self):
        name, path, args, kwargs = super().deconstruct()
        return name, path, args, {**kwargs, "tag": self.tag}

    @property
    def draw(self):
        return "leaf_segment_next('{}')".format(self.tag.replace("'", "''"))


class SnowflakeAutoField(_LeafField):
    """A primary key of snowflake ids."""

    tag = None
    draw = "leaf_snowflake_next()"


class CreateTag(Operation):
    """Creates a tag; undone, drops it. The options are further arguments of leaf_tag_create."""

    def __init__(self, tag, options=None):
        self.tag = tag
        self.options = options or {}

    def state_forwards(self, app_label, state):
        pass

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        named = "".join(f", {name} => %s" for name in self.options)
        self._execute(
            app_label, schema_editor, f"SELECT leaf_tag_create(%s{named})", self.options.values()
        )

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        self._execute(app_label, schema_editor, "SELECT leaf_tag_drop(%s)")

    def _execute(self, app_label, schema_editor, sql, more=()):
        if router.allow_migrate(schema_editor.connection.alias, app_label):
            schema_editor.execute(sql, [self.tag, *more])

    def describe(self):
        return f"Create tag {self.tag}"


class AdoptColumn(FieldOperation):
    """Lets leaf adopt the column of a field; undone, gives it its sequence or identity back.

    It has the arguments of AlterField, in whose place it stands, but is none, because Django
    would merge that with others when it squashes migrations.
    """

    def __init__(self, model_name, name, field):
        super().__init__(model_name, name, field)

    def state_forwards(self, app_label, state):
        state.alter_field(
            app_label, self.model_name_lower, self.name, self.field, preserve_default=True
        )

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        kind = "segment" if self.field.tag else "snowflake"
        sql = "SELECT leaf_column_adopt(%s, %s, %s, %s)"
        self._execute(app_label, schema_editor, to_state, sql, self.field.tag, kind)

    def database_backwards(self, app_label, schema_editor, from_state, to_state):
        sql = "SELECT leaf_column_release(%s, %s)"
        self._execute(app_label, schema_editor, to_state, sql)

    def _execute(self, app_label, schema_editor, state, sql, *more):
        model = state.apps.get_model(app_label, self.model_name)
        if self.allow_migrate_model(schema_editor.connection.alias, model):
            table = schema_editor.quote_name(model._meta.db_table)
            column = model._meta.get_field(self.name).column
            schema_editor.execute(sql, [table, column, *more])

    def describe(self):
        return f"Adopt field {self.name} on {self.model_name}"
