// node-postgres.
import assert from 'node:assert/strict'
import pg from 'pg'
import { ITEMS, inserts, main, promise, scalar, stored } from './checks.js'

const pool = new pg.Pool({ max: 2 })

// region insert
async function insert(pool, item) {
  const { rows } = await pool.query('INSERT INTO orders (item) VALUES ($1) RETURNING id', [item])
  return rows[0].id // a string
}
// endregion

// region bulk
async function insertAll(pool, items) {
  const { rows } = await pool.query(
    'INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id',
    [items],
  )
  return rows.map((row) => row.id)
}
// endregion

// region bigint
const types = {
  getTypeParser: (oid, format) =>
    oid === pg.types.builtins.INT8 ? BigInt : pg.types.getTypeParser(oid, format),
}
const poolOfBigInts = new pg.Pool({ types })
// endregion

// region json
async function eventsAsJson(pool) {
  const { rows } = await pool.query(
    `SELECT json_agg(json_build_object('id', id::text, 'what', what)) AS events FROM events`,
  )
  return rows[0].events
}
// endregion

/** An event whose id no JavaScript number can represent: odd and above 2^53. */
const newEvent = () =>
  scalar(`INSERT INTO events (id, what) VALUES (leaf_snowflake_next() | 1, 'x') RETURNING id`)

promise('an insert returns its id as a string', async () => {
  const id = await insert(pool, 'tea')
  assert.equal(typeof id, 'string')
  assert.deepEqual(await stored([id]), ['tea'])
})

promise('an array inserts 1,000 rows in one statement and returns their ids in order', async () => {
  const before = await inserts('orders')
  const ids = await insertAll(pool, ITEMS)
  assert.deepEqual(await stored(ids), ITEMS)
  assert.equal(await inserts('orders'), before + 1)
})

promise('trap: a number rounds a snowflake id', async () => {
  const id = await newEvent()
  assert.notEqual(String(Number(id)), id)
})

promise('a type parser makes every bigint a BigInt, exactly', async () => {
  const id = await newEvent()
  const { rows } = await poolOfBigInts.query('SELECT id FROM events WHERE id = $1', [BigInt(id)])
  assert.deepEqual(rows, [{ id: BigInt(id) }])
})

promise('trap: JSON.stringify refuses a BigInt', async () => {
  assert.throws(() => JSON.stringify({ id: 1n }), TypeError)
})

promise('trap: JSON that PostgreSQL made has numbers, which JSON.parse rounds', async () => {
  const id = await newEvent()
  const event = await scalar('SELECT to_json(e) FROM events AS e WHERE id = $1', id)
  assert.notEqual(String(event.id), id)
})

promise('JSON with ids as text has them exactly', async () => {
  const id = await newEvent()
  const events = JSON.parse(JSON.stringify(await eventsAsJson(pool)))
  assert.ok(events.some((event) => event.id === id))
})

promise('with layout js53, snowflake ids are numbers that JavaScript represents', async () => {
  const client = new pg.Client({ database: 'shop' })
  await client.connect()
  const { rows } = await client.query('SELECT leaf_snowflake_batch(1000) AS id')
  await client.end()
  assert.ok(rows.every(({ id }) => Number.isSafeInteger(Number(id)) && String(Number(id)) === id))
})

await main('node-postgres')
await pool.end()
await poolOfBigInts.end()
