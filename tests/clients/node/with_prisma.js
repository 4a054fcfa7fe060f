// Prisma's client without an engine, on node-postgres.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { PrismaPg } from '@prisma/adapter-pg'
import pg from 'pg'
import { ITEMS, inserts, main, promise, stored, url } from './checks.js'

/** Runs the command line; returns what it printed. */
function prisma(...options) {
  const command = ['node_modules/prisma/build/index.js', ...options, '--config', 'prisma/config.mjs']
  return execFileSync('node', command, {
    env: { ...process.env, DATABASE_URL: url, PRISMA_HIDE_UPDATE_MESSAGE: '1', CHECKPOINT_DISABLE: '1' },
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

prisma('generate')
const { PrismaClient } = await import('./prisma/generated/index.js').then((m) => m.default)
const client = new PrismaClient({ adapter: new PrismaPg({ connectionString: url }) })

// region insert
async function insert(item) {
  const { id } = await client.order.create({ data: { item } })
  return id // a BigInt
}
// endregion

// region bulk
async function insertAll(items) {
  const orders = await client.order.createManyAndReturn({
    data: items.map((item) => ({ item })),
    select: { id: true },
  })
  return orders.map((order) => order.id)
}
// endregion

promise('the migration is what prisma writes for the schema, after the tag is created', async () => {
  const migration = await readFile('prisma/migrations/0001_orders/migration.sql', 'utf8')
  const written = prisma(
    'migrate', 'diff', '--script', '--from-empty', '--to-schema-datamodel', 'prisma/schema.prisma',
  )
  const table = written.slice(written.indexOf('-- CreateTable')).trim()
  assert.ok(table.startsWith('-- CreateTable'), written)
  assert.ok(migration.includes(table), written)
  const connection = new pg.Client()
  await connection.connect()
  await connection.query(migration)
  await connection.end()
})

promise('create returns the id as a BigInt', async () => {
  const id = await insert('tea')
  assert.equal(typeof id, 'bigint')
  assert.deepEqual(await stored([id]), ['tea'])
})

promise('createManyAndReturn takes one statement for 1,000 rows and returns their ids in order', async () => {
  const before = await inserts('orders')
  const ids = await insertAll(ITEMS)
  assert.deepEqual(await stored(ids), ITEMS)
  assert.equal(await inserts('orders'), before + 1)
})

promise('trap: createMany returns a number of rows, not their ids', async () => {
  assert.deepEqual(await client.order.createMany({ data: [{ item: 'a' }, { item: 'b' }] }), { count: 2 })
})

promise('trap: JSON.stringify refuses an order', async () => {
  const order = await client.order.findFirst()
  assert.throws(() => JSON.stringify(order), TypeError)
})

await main('prisma')
await client.$disconnect()
