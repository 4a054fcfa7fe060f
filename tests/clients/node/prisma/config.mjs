// Without this, prisma downloads an engine even to generate a client that needs none.
import { PrismaPg } from '@prisma/adapter-pg'

export default {
  engine: 'js',
  experimental: { adapter: true },
  schema: './schema.prisma',
  adapter: async () => new PrismaPg({ connectionString: process.env.DATABASE_URL }),
}
