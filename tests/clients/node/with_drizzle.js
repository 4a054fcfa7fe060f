// Drizzle, on node-postgres.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { migrate } from 'drizzle-orm/node-postgres/migrator'
import { bigint, pgTable, text } from 'drizzle-orm/pg-core'
import { orders } from './drizzle/schema.js'
import { ITEMS, drawn, inserts, main, promise, scalar, stored, url } from './checks.js'

const db = drizzle(url)

// region insert
async function insert(item) {
  const [{ id }] = await db.insert(orders).values({ item }).returning({ id: orders.id })
  return id // a BigInt
}
// endregion

// region bulk
async function insertAll(items) {
  const values = items.map((item) => ({ item }))
  const rows = await db.insert(orders).values(values).returning({ id: orders.id })
  return rows.map((row) => row.id)
}
// endregion

/** Runs drizzle-kit, with other settings than those of its configuration; returns what it printed. */
async function kit(command, settings) {
  const { stdout } = await promisify(execFile)(
    'node',
    ['node_modules/drizzle-kit/bin.cjs', command, '--config', 'drizzle/config.js'],
    { env: { ...process.env, DATABASE_URL: url, ...settings } },
  )
  return stdout
}

promise('migrations create tag and table', async () => {
  await migrate(db, { migrationsFolder: 'drizzle/migrations' })
  assert.equal(await insert('first'), 1n)
})

promise('drizzle-kit finds no change, in migrations and in the database, and draws no id', async () => {
  const count = await drawn('orders', async () => {
    assert.match(await kit('generate'), /No schema changes/)
    assert.match(await kit('push'), /No changes detected/)
  })
  assert.equal(count, 0)
})

promise('trap: without ::text, drizzle-kit push finds a change each time', async () => {
  const schema = await readFile('drizzle/schema.js', 'utf8')
  await writeFile('drizzle/schema_without_cast.js', schema.replace('::text', ''))
  for (let time = 0; time < 2; time++) {
    assert.match(await kit('push', { DRIZZLE_SCHEMA: './drizzle/schema_without_cast.js' }), /Changes applied/)
  }
})

promise('an insert returns its id as a BigInt', async () => {
  const id = await insert('tea')
  assert.equal(typeof id, 'bigint')
  assert.deepEqual(await stored([id]), ['tea'])
})

promise('an array of values is inserted in one statement, and ids are returned in order', async () => {
  const before = await inserts('orders')
  const ids = await insertAll(ITEMS)
  assert.deepEqual(await stored(ids), ITEMS)
  assert.equal(await inserts('orders'), before + 1)
})

promise(`trap: drizzle-kit pull writes the default as it should be, but mode 'number'`, async () => {
  await kit('pull', { DRIZZLE_OUT: './drizzle/pulled' })
  const schema = await readFile('drizzle/pulled/schema.ts', 'utf8')
  const id = 'id: bigint({ mode: "number" }).default(sql`leaf_segment_next(\'orders\'::text)`)'
  assert.ok(schema.includes(id), schema)
  await writeFile('drizzle/pulled/schema.ts', schema.replaceAll('mode: "number"', 'mode: "bigint"'))
  assert.match(await kit('push', { DRIZZLE_SCHEMA: './drizzle/pulled/schema.ts' }), /No changes detected/)
})

promise(`trap: mode 'number' rounds snowflake ids without an error`, async () => {
  const events = pgTable('events', {
    id: bigint({ mode: 'number' }).primaryKey().default(sql`leaf_snowflake_next() | 1`),
    what: text().notNull(),
  })
  await db.execute(sql`CREATE TABLE events (
    id bigint PRIMARY KEY DEFAULT leaf_snowflake_next() | 1, what text NOT NULL)`)
  const [{ id }] = await db.insert(events).values({ what: 'x' }).returning({ id: events.id })
  assert.notEqual(BigInt(id), BigInt(await scalar('SELECT id FROM events')))
})

await main('drizzle')
await db.$client.end()
