"""asyncpg."""

import asyncpg

from checks import main, promise


# region insert
async def insert(conn, item):
    return await conn.fetchval("INSERT INTO orders (item) VALUES ($1) RETURNING id", item)
# endregion


# region bulk
async def insert_many(conn, items):
    rows = await conn.fetchmany(
        "INSERT INTO orders (item) VALUES ($1) RETURNING id", [(item,) for item in items]
    )
    return [row["id"] for row in rows]
# endregion


# region copy
async def copy(conn, items):
    drawn = await conn.fetch("SELECT leaf_segment_batch('orders', $1) AS id", len(items))
    ids = [row["id"] for row in drawn]
    await conn.copy_records_to_table("orders", records=zip(ids, items), columns=["id", "item"])
    return ids
# endregion


ITEMS = [f"item {number}" for number in range(1000)]


async def stored(conn, ids):
    """The items of these ids, in the order of the ids."""
    rows = await conn.fetch("SELECT id, item FROM orders WHERE id = ANY ($1)", ids)
    found = {row["id"]: row["item"] for row in rows}
    return [found[id] for id in ids]


@promise("an insert returns its id")
async def _():
    conn = await asyncpg.connect()
    id = await insert(conn, "tea")
    assert await stored(conn, [id]) == ["tea"]
    await conn.close()


@promise("a prepared statement draws another id with every execution")
async def _():
    conn = await asyncpg.connect()
    statement = await conn.prepare("SELECT leaf_segment_next('orders')")
    ids = [await statement.fetchval() for _ in range(20)]
    assert ids == list(range(ids[0], ids[0] + 20))
    await conn.close()


@promise("fetchmany returns an id per row, in the order of the rows")
async def _():
    conn = await asyncpg.connect()
    ids = await insert_many(conn, ITEMS)
    assert ids == sorted(ids) and await stored(conn, ids) == ITEMS
    await conn.close()


@promise("trap: executemany returns no ids")
async def _():
    conn = await asyncpg.connect()
    sql = "INSERT INTO orders (item) VALUES ($1) RETURNING id"
    assert await conn.executemany(sql, [("a",), ("b",)]) is None
    await conn.close()


@promise("copy_records_to_table stores ids that were drawn before")
async def _():
    conn = await asyncpg.connect()
    assert await stored(conn, await copy(conn, ITEMS)) == ITEMS
    await conn.close()


@promise("copy_records_to_table without the id column draws the ids itself")
async def _():
    conn = await asyncpg.connect()
    before = await conn.fetchval("SELECT leaf_segment_next('orders')")
    await conn.copy_records_to_table("orders", records=[("a",), ("b",)], columns=["item"])
    assert await stored(conn, [before + 1, before + 2]) == ["a", "b"]
    await conn.close()


@promise("trap: copy_records_to_table stores None as NULL, not as the default")
async def _():
    conn = await asyncpg.connect()
    try:
        await conn.copy_records_to_table("orders", records=[(None, "a")])
        raise AssertionError("None became an id")
    except asyncpg.NotNullViolationError:
        pass
    await conn.close()


main("asyncpg")
