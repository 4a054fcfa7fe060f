// region migration
export async function up(knex) {
  await knex.raw(`SELECT leaf_tag_create('orders')`)
  await knex.schema.createTable('orders', (table) => {
    table.bigInteger('id').primary().defaultTo(knex.raw(`leaf_segment_next('orders')`))
    table.text('item').notNullable()
  })
}

export async function down(knex) {
  await knex.schema.dropTable('orders')
  await knex.raw(`SELECT leaf_tag_drop('orders')`)
}
// endregion
