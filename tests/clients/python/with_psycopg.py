"""psycopg 3."""

import time

import psycopg

from checks import INSERTS, main, promise


# region insert
def insert(conn, item):
    row = conn.execute("INSERT INTO orders (item) VALUES (%s) RETURNING id", [item]).fetchone()
    return row[0]
# endregion


# region bulk
def insert_many(conn, items):
    with conn.cursor() as cur:
        cur.executemany(
            "INSERT INTO orders (item) VALUES (%s) RETURNING id",
            [(item,) for item in items],
            returning=True,
        )
        return [result.fetchone()[0] for result in cur.results()]
# endregion


# region copy
def copy(conn, items):
    drawn = conn.execute("SELECT leaf_segment_batch('orders', %s)", [len(items)])
    ids = [row[0] for row in drawn]
    with conn.cursor() as cur, cur.copy("COPY orders (id, item) FROM STDIN") as rows:
        for row in zip(ids, items):
            rows.write_row(row)
    return ids
# endregion


# region poll
def poll(conn, handle):
    """Handles what is new in the outbox."""
    with conn.transaction():
        last = conn.execute("SELECT xid::text, id FROM outbox_position FOR UPDATE").fetchone()
        rows = conn.execute(
            """
            SELECT o.xid::text, o.id, o.what FROM outbox AS o
             WHERE (o.xid, o.id) > (%s::xid8, %s) AND o.xid < pg_snapshot_xmin(pg_current_snapshot())
             ORDER BY o.xid, o.id LIMIT 1000""",
            last,
        ).fetchall()
        for xid, id, what in rows:
            handle(what)
            last = xid, id
        conn.execute("UPDATE outbox_position SET xid = %s::xid8, id = %s", last)
# endregion


ITEMS = [f"item {number}" for number in range(1000)]


def stored(conn, ids):
    """The items of these ids, in the order of the ids."""
    found = dict(conn.execute("SELECT id, item FROM orders WHERE id = ANY (%s)", [ids]).fetchall())
    return [found[id] for id in ids]


@promise("an insert returns its id")
def _():
    with psycopg.connect() as conn:
        id = insert(conn, "tea")
        assert stored(conn, [id]) == ["tea"]
        assert insert(conn, "cups") == id + 1


@promise("executemany returns an id per row, in the order of the rows")
def _():
    with psycopg.connect() as conn:
        ids = insert_many(conn, ITEMS)
        assert ids == sorted(ids) and stored(conn, ids) == ITEMS


@promise("trap: after executemany, fetchall has the id of one row only")
def _():
    with psycopg.connect() as conn, conn.cursor() as cur:
        sql = "INSERT INTO orders (item) VALUES (%s) RETURNING id"
        cur.executemany(sql, [("a",), ("b",)], returning=True)
        assert len(cur.fetchall()) == 1


@promise("an array inserts any number of rows in one statement and returns their ids in order")
def _():
    with psycopg.connect() as conn:
        before = conn.execute(INSERTS, ["orders"]).fetchone()[0]
        sql = "INSERT INTO orders (item) SELECT unnest(%s::text[]) RETURNING id"
        ids = [row[0] for row in conn.execute(sql, [ITEMS])]
        assert stored(conn, ids) == ITEMS
        assert conn.execute(INSERTS, ["orders"]).fetchone()[0] == before + 1


@promise("COPY fills the column with ids that were drawn before")
def _():
    with psycopg.connect() as conn:
        assert stored(conn, copy(conn, ITEMS)) == ITEMS


@promise("COPY without the column draws the ids itself")
def _():
    with psycopg.connect() as conn:
        with conn.cursor() as cur, cur.copy("COPY orders (item) FROM STDIN") as rows:
            for item in ITEMS:
                rows.write_row([item])
        last = conn.execute("SELECT max(id) FROM orders").fetchone()[0]
        assert stored(conn, list(range(last - 999, last + 1))) == ITEMS


@promise("a poller of an outbox misses no row of a transaction that commits late")
def _():
    with psycopg.connect(autocommit=True) as conn, psycopg.connect() as late:
        seen = []
        late.execute("INSERT INTO outbox (what) VALUES ('drawn first')")
        conn.execute("INSERT INTO outbox (what) VALUES ('committed first')")
        poll(conn, seen.append)
        assert seen == []
        late.commit()
        # The loader may be in a transaction, which holds the poller up.
        end = time.monotonic() + 60
        while len(seen) < 2 and time.monotonic() < end:
            poll(conn, seen.append)
        poll(conn, seen.append)
        assert seen == ["drawn first", "committed first"]


main("psycopg")
