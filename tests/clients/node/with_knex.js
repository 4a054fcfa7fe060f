// Knex.
import assert from 'node:assert/strict'
import knex from 'knex'
import { ITEMS, inserts, main, promise, stored, url } from './checks.js'

const db = knex({
  client: 'pg',
  connection: url,
  migrations: { directory: new URL('knex_migrations', import.meta.url).pathname },
})

// region insert
async function insert(item) {
  const [{ id }] = await db('orders').insert({ item }).returning('id')
  return id // a string
}
// endregion

// region bulk
async function insertAll(items) {
  const rows = await db.batchInsert('orders', items.map((item) => ({ item })), 1000).returning('id')
  return rows.map((row) => row.id)
}
// endregion

promise('migrations create tag and table, and remove them', async () => {
  await db.migrate.latest()
  await db.migrate.rollback()
  await db.migrate.latest()
})

promise('an insert returns its id as a string', async () => {
  const id = await insert('tea')
  assert.equal(typeof id, 'string')
  assert.deepEqual(await stored([id]), ['tea'])
})

promise('batchInsert takes one statement for 1,000 rows and returns their ids in order', async () => {
  const before = await inserts('orders')
  const ids = await insertAll(ITEMS)
  assert.deepEqual(await stored(ids), ITEMS)
  assert.equal(await inserts('orders'), before + 1)
})

promise('trap: a default without raw is text, and no table is created', async () => {
  const table = db.schema.createTable('wrong', (table) => {
    table.bigInteger('id').primary().defaultTo(`leaf_segment_next('orders')`)
  })
  await assert.rejects(table, { code: '22P02' })
})

await main('knex')
await db.destroy()
