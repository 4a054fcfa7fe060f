// drizzle-kit takes paths from the folder in which it runs, node/.
export default {
  dialect: 'postgresql',
  schema: process.env.DRIZZLE_SCHEMA ?? './drizzle/schema.js',
  out: process.env.DRIZZLE_OUT ?? './drizzle/migrations',
  dbCredentials: { url: process.env.DATABASE_URL },
}
