"""The plain edition with drivers as they are by default: what they roll back was not granted."""

import psycopg
from psycopg_pool import ConnectionPool
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError

from checks import main, promise, url

CALL = "CALL leaf_segment_reserve('orders', 10, NULL)"


def numbers(blocks):
    """The ids of blocks, of which none may come twice."""
    ids = [id for block in blocks for id in range(block.lower, block.upper)]
    assert len(ids) == len(set(ids)) == 10 * len(blocks)


@promise("psycopg: within the transaction that it opens by default, nothing is granted")
def _():
    blocks = []
    with psycopg.connect() as conn, psycopg.connect(autocommit=True) as other:
        for _ in range(3):
            try:
                conn.execute(CALL)
                raise AssertionError("there is a transaction")
            except psycopg.errors.InvalidTransactionTermination as error:
                assert "autocommit" in error.diag.message_hint
            conn.rollback()
            blocks += other.execute(CALL).fetchone()
    numbers(blocks)


@promise("psycopg: BEGIN, reserve, ROLLBACK, reserve gives no block twice")
def _():
    with psycopg.connect(autocommit=True) as conn:
        blocks = [conn.execute(CALL).fetchone()[0]]
        try:
            with conn.transaction():
                conn.execute(CALL)
            raise AssertionError("there is a transaction")
        except psycopg.errors.InvalidTransactionTermination:
            pass
        blocks += conn.execute(CALL, prepare=True).fetchone()
        blocks += conn.execute(CALL, prepare=True).fetchone()
    numbers(blocks)


@promise("psycopg's pool: connections in autocommit mode reserve, others get an error")
def _():
    blocks = []
    with ConnectionPool(kwargs={"autocommit": True}) as pool, ConnectionPool() as other:
        for _ in range(3):
            with pool.connection() as conn:
                blocks += conn.execute(CALL).fetchone()
            try:
                with other.connection() as conn:
                    conn.execute(CALL)
                raise AssertionError("there is a transaction")
            except psycopg.errors.InvalidTransactionTermination:
                pass
    numbers(blocks)


@promise("SQLAlchemy: within the transaction that it opens by default, nothing is granted; with AUTOCOMMIT, blocks are")
def _():
    engine = create_engine(url("postgresql+psycopg"))
    blocks = []
    for _ in range(3):
        try:
            with engine.begin() as conn:
                conn.execute(text(CALL))
            raise AssertionError("there is a transaction")
        except DBAPIError as error:
            assert error.orig.sqlstate == "2D000"
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
            blocks.append(conn.execute(text(CALL)).scalar())
    numbers(blocks)


main("plain edition")
