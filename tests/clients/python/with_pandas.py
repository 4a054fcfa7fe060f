"""pandas, on SQLAlchemy and psycopg."""

import pandas as pd
from sqlalchemy import create_engine, text

from checks import INSERTS, main, promise, url

engine = create_engine(url("postgresql+psycopg"))


# region insert
def append(conn, frame):
    frame.to_sql("orders", conn, if_exists="append", index=False, method="multi", chunksize=1000)
# endregion


# region copy
def copy(table, conn, columns, rows):
    """A method of to_sql."""
    names = ", ".join(f'"{column}"' for column in columns)
    with conn.connection.cursor() as cur:
        with cur.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as stream:
            for row in rows:
                stream.write_row(row)


def append_with_ids(conn, frame):
    drawn = conn.execute(text("SELECT leaf_segment_batch('orders', :count)"), {"count": len(frame)})
    frame = frame.assign(id=drawn.scalars().all())
    frame.to_sql("orders", conn, if_exists="append", index=False, method=copy)
    return frame
# endregion


# region read
def read(conn, query):
    return pd.read_sql(text(query), conn, dtype_backend="numpy_nullable")
# endregion


ITEMS = pd.DataFrame({"item": [f"item {number}" for number in range(1000)]})


def inserts(conn):
    return conn.exec_driver_sql(INSERTS, ("orders",)).scalar()


@promise("to_sql with method multi inserts 1,000 rows in one statement")
def _():
    with engine.begin() as conn:
        before = inserts(conn)
        append(conn, ITEMS)
        assert inserts(conn) == before + 1
        assert read(conn, "SELECT id FROM orders")["id"].is_unique


@promise("ids drawn before are in the frame and in the table")
def _():
    with engine.begin() as conn:
        frame = append_with_ids(conn, ITEMS)
        query = f"SELECT item, id FROM orders WHERE id >= {frame['id'].min()} ORDER BY id"
        assert read(conn, query).values.tolist() == frame.values.tolist()


@promise("trap: the index of a frame named id is stored instead of new ids")
def _():
    with engine.connect() as conn:
        frame = pd.DataFrame({"item": ["a"]}, index=[-7])
        frame.to_sql("orders", conn, if_exists="append", index_label="id")
        assert conn.scalar(text("SELECT item FROM orders WHERE id = -7")) == "a"


@promise("trap: if_exists='replace' makes a table without the default")
def _():
    with engine.connect() as conn:
        ITEMS.assign(id=1).to_sql("orders", conn, if_exists="replace", index=False)
        default = "SELECT column_default FROM information_schema.columns WHERE table_name = 'orders' AND column_name = 'id'"
        assert conn.scalar(text(default)) is None
        conn.rollback()


# A join with rows that have no partner.
JOIN = "SELECT e.id FROM (VALUES (1), (2)) AS v (n) LEFT JOIN events AS e ON v.n = 1"


@promise("trap: a column of ids with a NULL is read as floats, which are rounded")
def _():
    with engine.connect() as conn:
        # An odd number above 2^53, so that a float cannot represent it.
        id = conn.scalar(text("INSERT INTO events (id, what) VALUES (leaf_snowflake_next() | 1, 'x') RETURNING id"))
        assert int(pd.read_sql(text(JOIN), conn)["id"].dropna().iloc[0]) != id
        conn.rollback()


@promise("with a nullable type the ids are read exactly")
def _():
    with engine.connect() as conn:
        id = conn.scalar(text("INSERT INTO events (id, what) VALUES (leaf_snowflake_next() | 1, 'x') RETURNING id"))
        assert int(read(conn, JOIN)["id"].dropna().iloc[0]) == id
        conn.rollback()


main("pandas")
