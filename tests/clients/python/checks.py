"""What the checks of the Python clients share.

They connect as the environment says: PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE.
"""

import asyncio
import inspect
import os
import sys
import traceback

_checks = []


def promise(text):
    """Registers a check under the promise that it defends."""

    def register(check):
        _checks.append((text, check))
        return check

    return register


def main(client):
    """Runs the checks in the order of the file; prints one line for each."""
    failed = 0
    for text, check in _checks:
        try:
            if inspect.iscoroutinefunction(check):
                asyncio.run(check())
            else:
                check()
            print(f"ok      {client}: {text}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED  {client}: {text}", flush=True)
            traceback.print_exc(file=sys.stdout)
    sys.exit(failed > 0)


def url(scheme):
    """Where the server is, as a URL."""
    env = os.environ
    return (
        f"{scheme}://{env['PGUSER']}:{env['PGPASSWORD']}"
        f"@{env['PGHOST']}:{env['PGPORT']}/{env['PGDATABASE']}"
    )


# Statements that insert into a table, as the server has counted them.
INSERTS = """
    SELECT coalesce(sum(calls), 0)::int FROM stats.pg_stat_statements
     WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND query ~* ('^insert into "?' || %s || '"?\\M')"""


class Drawn:
    """Counts the ids drawn of a tag between two calls: they are consecutive."""

    def __init__(self, draw):
        self.draw = draw
        self.last = draw()

    def count(self):
        last, self.last = self.last, self.draw()
        return self.last - last - 1
