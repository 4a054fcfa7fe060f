"""200 clients of a PgBouncer in transaction mode, which has 20 connections to the server."""

import asyncio
import os

import asyncpg
import psycopg

from checks import main, promise

POOLER = os.environ["POOLER"]  # the folder of its socket
CLIENTS = 200
ROUNDS = 20


# region asyncpg
async def connect(host):
    return await asyncpg.connect(host=host, port=6432, statement_cache_size=0)
# endregion


# region psycopg
def connect_psycopg(host):
    return psycopg.connect(host=host, port=6432, prepare_threshold=None)
# endregion


async def client(connection):
    """Ids of one client: drawn, inserted, drawn and inserted in one transaction."""
    orders, events = [], []
    for _ in range(ROUNDS):
        orders.append(await connection.fetchval("SELECT leaf_segment_next('orders')"))
        insert = "INSERT INTO orders (item) VALUES ($1) RETURNING id"
        orders.append(await connection.fetchval(insert, "alone"))
        async with connection.transaction():
            orders.append(await connection.fetchval(insert, "together"))
            insert = "INSERT INTO events (what) VALUES ($1) RETURNING id"
            events.append(await connection.fetchval(insert, "together"))
    await connection.close()
    return orders, events


@promise(f"{CLIENTS} clients draw and insert at once: no id comes twice, no call fails")
async def _():
    connections = [await connect(POOLER) for _ in range(CLIENTS)]
    drawn = await asyncio.gather(*[client(connection) for connection in connections])
    orders = [id for client in drawn for id in client[0]]
    events = [id for client in drawn for id in client[1]]
    assert len(set(orders)) == len(orders) == CLIENTS * ROUNDS * 3
    assert len(set(events)) == len(events) == CLIENTS * ROUNDS
    for orders, events in drawn:
        assert orders == sorted(orders) and events == sorted(events)


@promise("psycopg without prepared statements works through it")
def _():
    clients = [connect_psycopg(POOLER) for _ in range(50)]
    ids = []
    for _ in range(10):
        for client in clients:
            ids.append(client.execute("SELECT leaf_segment_next(%s)", ["orders"]).fetchone()[0])
            client.commit()
    assert len(set(ids)) == len(ids) == 500
    for client in clients:
        client.close()


@promise("trap: statements prepared by name fail, because another session executes them")
async def _():
    connections = [await asyncpg.connect(host=POOLER, port=6432) for _ in range(CLIENTS)]
    results = await asyncio.gather(*map(client, connections), return_exceptions=True)
    errors = {type(result) for result in results if isinstance(result, Exception)}
    for connection in connections:
        connection.terminate()
    assert errors & {asyncpg.DuplicatePreparedStatementError, asyncpg.InvalidSQLStatementNameError}, errors


main("pgbouncer")
