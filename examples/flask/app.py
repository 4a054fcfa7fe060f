"""A web application whose notes have ids that can be read out and typed.

    pip install -r requirements.txt
    DATABASE_URL=postgres://shop@localhost/shop flask --app app run

    curl -s localhost:5000/notes -H 'content-type: application/json' -d '{"text": "buy tea"}'
    curl -s localhost:5000/notes/...

The key of a note is a snowflake id from the default of the column. Outside of the database,
it is a text with a check symbol, so that a mistyped one is noticed.
"""

import os

import psycopg
from flask import Flask, abort, jsonify, request
from psycopg_pool import ConnectionPool

TABLES = """
    CREATE TABLE IF NOT EXISTS notes (
        id   bigint PRIMARY KEY DEFAULT leaf_snowflake_next(),
        text text NOT NULL)"""

app = Flask(__name__)
pool = ConnectionPool(os.environ["DATABASE_URL"], min_size=1, max_size=8, open=True)
with pool.connection() as conn:
    conn.execute(TABLES)


@app.post("/notes")
def create():
    text = (request.get_json() or {}).get("text")
    if not isinstance(text, str) or not text:
        abort(400, "text is missing")
    with pool.connection() as conn:
        row = conn.execute("INSERT INTO notes (text) VALUES (%s) RETURNING leaf_id_text(id)", [text]).fetchone()
    return jsonify(id=row[0]), 201, {"Location": f"/notes/{row[0]}"}


@app.get("/notes/<id>")
def show(id):
    with pool.connection() as conn:
        try:
            query = "SELECT leaf_id_text(id), text, leaf_snowflake_time(id) FROM notes WHERE id = leaf_id_parse(%s)"
            row = conn.execute(query, [id]).fetchone()
        except psycopg.errors.DataError as error:
            # Not an id, or mistyped: the check symbol does not match.
            abort(400, error.diag.message_primary)
    if row is None:
        abort(404)
    return jsonify(id=row[0], text=row[1], written=row[2].isoformat())
