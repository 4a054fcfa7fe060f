"""Buffers of ids in a service: for threads on psycopg, for tasks on asyncpg."""

import asyncio
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import asyncpg
import psycopg
from psycopg_pool import ConnectionPool

from checks import main, promise


# region threads
class IdBuffer:
    """Hands out ids of a tag from a block that it reserves. Threads can share it."""

    # In the plain edition: "CALL leaf_segment_reserve(%s, %s, NULL)"
    SQL = "SELECT leaf_segment_reserve(%s, %s)"

    def __init__(self, pool, tag, size=1000):
        self.pool, self.tag, self.size = pool, tag, size
        self.lock = threading.Lock()
        self.ids = iter(())

    def next(self):
        with self.lock:
            id = next(self.ids, None)
            if id is None:
                self.ids = iter(self.reserve())
                id = next(self.ids)
            return id

    def reserve(self):
        with self.pool.connection() as conn:  # in autocommit mode: ConnectionPool(kwargs={"autocommit": True})
            [block] = conn.execute(self.SQL, [self.tag, self.size]).fetchone()
        return range(block.lower, block.upper)
# endregion


# region tasks
class AsyncIdBuffer:
    """Hands out ids of a tag from a block that it reserves. Tasks can share it."""

    # In the plain edition: "CALL leaf_segment_reserve($1, $2, NULL)"
    SQL = "SELECT leaf_segment_reserve($1, $2)"

    def __init__(self, pool, tag, size=1000):
        self.pool, self.tag, self.size = pool, tag, size
        self.lock = asyncio.Lock()
        self.ids = iter(())

    async def next(self):
        async with self.lock:
            id = next(self.ids, None)
            if id is None:
                self.ids = iter(await self.reserve())
                id = next(self.ids)
            return id

    async def reserve(self):
        block = await self.pool.fetchval(self.SQL, self.tag, self.size)
        return range(block.lower, block.upper)
# endregion


if os.environ["PGDATABASE"] == "client_plain":
    IdBuffer.SQL = "CALL leaf_segment_reserve(%s, %s, NULL)"
    AsyncIdBuffer.SQL = "CALL leaf_segment_reserve($1, $2, NULL)"


def reserves():
    """Statements that reserved a block, as the server has counted them."""
    with psycopg.connect() as conn:
        return conn.execute("""
            SELECT coalesce(sum(calls), 0)::int FROM stats.pg_stat_statements
             WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
               AND query ~ 'leaf_segment_reserve' AND query !~ 'pg_stat_statements'""").fetchone()[0]


def verify(drawn, before):
    """Of 64 that drew 500 ids each, no id twice, with a statement per 1,000."""
    assert all(ids == sorted(ids) for ids in drawn)
    assert len({id for ids in drawn for id in ids}) == 32000
    assert reserves() == before + 32


@promise("64 threads draw 32,000 ids, no id comes twice, with a statement per 1,000")
def _():
    with ConnectionPool(kwargs={"autocommit": True}) as pool, ThreadPoolExecutor(64) as threads:
        buffer, before = IdBuffer(pool, "orders"), reserves()
        drawn = threads.map(lambda _: [buffer.next() for _ in range(500)], range(64))
        verify(list(drawn), before)


@promise("after an error, the buffer for threads goes on")
def _():
    with ConnectionPool(kwargs={"autocommit": True}) as pool:
        buffer = IdBuffer(pool, "later_python", 10)
        try:
            buffer.next()
            raise AssertionError("there is such a tag")
        except psycopg.errors.UndefinedObject:
            pass
        with psycopg.connect() as conn:
            conn.execute("SELECT leaf_tag_create('later_python')")
        assert [buffer.next() for _ in range(25)] == list(range(1, 26))


@promise("64 tasks draw 32,000 ids, no id comes twice, with a statement per 1,000")
async def _():
    async with asyncpg.create_pool() as pool:
        buffer, before = AsyncIdBuffer(pool, "orders"), reserves()

        async def draw():
            return [await buffer.next() for _ in range(500)]

        verify(await asyncio.gather(*[draw() for _ in range(64)]), before)


@promise("after an error or a task that was cancelled, the buffer for tasks goes on")
async def _():
    async with asyncpg.create_pool() as pool:
        buffer = AsyncIdBuffer(pool, "later_tasks", 10)
        try:
            await buffer.next()
            raise AssertionError("there is such a tag")
        except asyncpg.UndefinedObjectError:
            pass
        await pool.execute("SELECT leaf_tag_create('later_tasks')")
        task = asyncio.create_task(buffer.next())
        await asyncio.sleep(0)
        task.cancel()
        ids = [await buffer.next() for _ in range(25)]
        assert ids == list(range(ids[0], ids[0] + 25))


main("python buffer")
