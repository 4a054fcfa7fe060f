// What the checks of the JavaScript clients share. They connect as the environment says:
// PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE.
import pg from 'pg'

const checks = []

/** Registers a check under the promise that it defends. */
export function promise(text, check) {
  checks.push([text, check])
}

/** Runs the checks in their order; prints one line for each. */
export async function main(client) {
  for (const [text, check] of checks) {
    try {
      await check()
      console.log(`ok      ${client}: ${text}`)
    } catch (error) {
      process.exitCode = 1
      console.log(`FAILED  ${client}: ${text}`)
      console.log(error)
    }
  }
}

const { PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE } = process.env
export const url = `postgresql://${PGUSER}:${PGPASSWORD}@${PGHOST}:${PGPORT}/${PGDATABASE}`

export const ITEMS = Array.from({ length: 1000 }, (_, number) => `item ${number}`)

/** The only value of a statement's only row, over a connection of its own. */
export async function scalar(sql, ...values) {
  const client = new pg.Client()
  await client.connect()
  try {
    return Object.values((await client.query(sql, values)).rows[0])[0]
  } finally {
    await client.end()
  }
}

/** Statements that inserted into a table, as the server has counted them. */
export function inserts(table) {
  return scalar(
    `SELECT coalesce(sum(calls), 0)::int FROM stats.pg_stat_statements
      WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND query ~* ('^insert into ("?public"?\\.)?"?' || $1 || '"?\\M')`,
    table,
  )
}

/** How many ids of a tag were drawn while `work` ran: they are consecutive. */
export async function drawn(tag, work) {
  const draw = async () => BigInt(await scalar('SELECT leaf_segment_next($1)', tag))
  const before = await draw()
  await work()
  return Number((await draw()) - before - 1n)
}

/** The items of some ids, in the order of the ids. */
export async function stored(ids) {
  const rows = await scalar(
    'SELECT json_object_agg(id::text, item) FROM orders WHERE id = ANY ($1)',
    ids.map(String),
  )
  return ids.map((id) => rows[id])
}
