// A buffer of ids in a service, on node-postgres.
import assert from 'node:assert/strict'
import pg from 'pg'
import { main, promise, scalar } from './checks.js'

const pool = new pg.Pool()

// region buffer
/** Hands out ids of a tag, as BigInt, from a block that it reserves. */
class IdBuffer {
  // In the plain edition: 'CALL leaf_segment_reserve($1, $2, NULL)'
  static sql = 'SELECT leaf_segment_reserve($1, $2) AS block'
  #next = 0n
  #end = 0n
  #reserving = null

  constructor(pool, tag, size = 1000) {
    Object.assign(this, { pool, tag, size })
  }

  async next() {
    while (this.#next === this.#end) {
      this.#reserving ??= this.#reserve().finally(() => { this.#reserving = null })
      await this.#reserving
    }
    return this.#next++
  }

  async #reserve() {
    const { rows: [{ block }] } = await this.pool.query(IdBuffer.sql, [this.tag, this.size])
    const [first, end] = block.match(/-?\d+/g).map(BigInt) // of '[1,1001)'
    this.#next = first
    this.#end = end
  }
}
// endregion

if (process.env.PGDATABASE === 'client_plain') {
  IdBuffer.sql = 'CALL leaf_segment_reserve($1, $2, NULL)'
}

const reserves = () =>
  scalar(`SELECT coalesce(sum(calls), 0)::int FROM stats.pg_stat_statements
           WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
             AND query ~ 'leaf_segment_reserve' AND query !~ 'pg_stat_statements'`)

promise('5,000 calls at a time draw 32,000 ids, no id comes twice, with a statement per 1,000', async () => {
  const buffer = new IdBuffer(pool, 'orders')
  const before = await reserves()
  const ids = []
  for (const count of [5000, 5000, 5000, 5000, 5000, 5000, 2000]) {
    ids.push(...(await Promise.all(Array.from({ length: count }, () => buffer.next()))))
  }
  assert.equal(new Set(ids).size, 32000)
  assert.equal(await reserves(), before + 32)
})

promise('after an error it goes on', async () => {
  const buffer = new IdBuffer(pool, 'later_node', 10)
  const calls = await Promise.allSettled([buffer.next(), buffer.next()])
  assert.deepEqual(calls.map((call) => call.reason?.code), ['42704', '42704'])
  await scalar(`SELECT leaf_tag_create('later_node')`)
  const ids = await Promise.all(Array.from({ length: 25 }, () => buffer.next()))
  assert.deepEqual(ids.sort((a, b) => Number(a - b)), Array.from({ length: 25 }, (_, i) => BigInt(i + 1)))
})

await main('node buffer')
await pool.end()
