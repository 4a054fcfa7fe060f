// TypeORM, with schemas instead of decorators, so that no compiler is needed.
import assert from 'node:assert/strict'
import { DataSource, EntitySchema } from 'typeorm'
import { ITEMS, drawn, inserts, main, promise, scalar, stored, url } from './checks.js'

// region schema
const Order = new EntitySchema({
  name: 'Order',
  tableName: 'orders',
  columns: {
    // As a decorator: @PrimaryColumn({ type: 'bigint', default: () => "leaf_segment_next('orders')" })
    id: { type: 'bigint', primary: true, default: () => `leaf_segment_next('orders')` },
    item: { type: 'text' },
  },
})
// endregion

class CreateOrders1700000000000 {
  // region migration
  async up(runner) {
    await runner.query(`SELECT leaf_tag_create('orders')`)
    await runner.query(`
      CREATE TABLE orders (
        id bigint NOT NULL DEFAULT leaf_segment_next('orders'),
        item text NOT NULL,
        PRIMARY KEY (id))`)
  }

  async down(runner) {
    await runner.query('DROP TABLE orders')
    await runner.query(`SELECT leaf_tag_drop('orders')`)
  }
  // endregion
}

const source = new DataSource({
  type: 'postgres',
  url,
  entities: [Order],
  migrations: [CreateOrders1700000000000],
})
await source.initialize()

// region bulk
async function insertAll(items) {
  const orders = await source.getRepository(Order).save(items.map((item) => ({ item })))
  return orders.map((order) => order.id) // strings
}
// endregion

promise('migrations create tag and table, and remove them', async () => {
  await source.runMigrations()
  await source.undoLastMigration()
  await source.runMigrations()
})

promise('the schema builder finds no change and draws no id', async () => {
  const count = await drawn('orders', async () => {
    const { upQueries } = await source.driver.createSchemaBuilder().log()
    assert.deepEqual(upQueries.map((query) => query.query), [])
  })
  assert.equal(count, 0)
})

promise('save returns the id as a string', async () => {
  const { id } = await source.getRepository(Order).save({ item: 'tea' })
  assert.equal(typeof id, 'string')
  assert.deepEqual(await stored([id]), ['tea'])
})

promise('save inserts 1,000 objects in one statement and sets their ids in order', async () => {
  const before = await inserts('orders')
  const ids = await insertAll(ITEMS)
  assert.deepEqual(await stored(ids), ITEMS)
  assert.equal(await inserts('orders'), before + 1)
})

promise('trap: a generated column takes the default away and makes a sequence', async () => {
  const Generated = new EntitySchema({
    name: 'Order',
    tableName: 'orders',
    columns: {
      id: { type: 'bigint', primary: true, generated: 'increment' },
      item: { type: 'text' },
    },
  })
  const other = await new DataSource({ type: 'postgres', url, entities: [Generated] }).initialize()
  const { upQueries } = await other.driver.createSchemaBuilder().log()
  await other.destroy()
  assert.match(upQueries.map((query) => query.query).join('; '), /CREATE SEQUENCE.*nextval/)
})

await main('typeorm')
await source.destroy()
