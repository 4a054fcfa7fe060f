# ActiveRecord.

require "active_record"
require "stringio"
require "tempfile"

# region migration
class CreateOrders < ActiveRecord::Migration[6.1]
  def change
    reversible do |direction|
      direction.up { execute "SELECT leaf_tag_create('orders')" }
      direction.down { execute "SELECT leaf_tag_drop('orders')" }
    end
    create_table :orders, id: :bigint, default: -> { "leaf_segment_next('orders')" } do |t|
      t.text :item, null: false
    end
  end
end
# endregion

class Order < ActiveRecord::Base
end

# region bulk
def insert_many(items)
  Order.insert_all!(items.map { |item| { item: item } }, returning: :id).rows.flatten
end
# endregion

# region tags
def create_tags
  ActiveRecord::Base.connection.execute("SELECT leaf_tag_align(create_missing => true)")
end
# endregion

ITEMS = (0...1000).map { |number| "item #{number}" }
SERVER = {
  adapter: "postgresql", host: ENV.fetch("PGHOST"), port: ENV.fetch("PGPORT"),
  username: ENV.fetch("PGUSER"), password: ENV.fetch("PGPASSWORD")
}

def connect(options)
  ActiveRecord::Base.establish_connection(SERVER.merge(options))
  ActiveRecord::Base.connection
end

$failed = false

def promise(text)
  yield
  puts "ok      activerecord: #{text}"
rescue StandardError => e
  $failed = true
  puts "FAILED  activerecord: #{text}", e.full_message(highlight: false)
end

def equal(found, expected)
  raise "expected #{expected.inspect}, found #{found.inspect}" unless found == expected
end

def number(sql)
  ActiveRecord::Base.connection.select_value(sql)
end

def inserts
  number(<<~SQL).to_i
    SELECT coalesce(sum(calls), 0) FROM stats.pg_stat_statements
     WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
       AND query ~* '^insert into "?orders'
  SQL
end

def schema_rb
  stream = StringIO.new
  ActiveRecord::SchemaDumper.dump(ActiveRecord::Base.connection, stream)
  stream.string
end

ActiveRecord::Migration.verbose = false
connect(database: ENV.fetch("PGDATABASE"))

promise("a migration creates tag and table, and removes them") do
  CreateOrders.migrate(:up)
  CreateOrders.migrate(:down)
  CreateOrders.migrate(:up)
end

promise("create! sets the id") do
  order = Order.create!(item: "tea")
  equal(Order.find(order.id).item, "tea")
end

promise("insert_all takes one statement for 1,000 rows and returns their ids in order") do
  before = inserts
  ids = insert_many(ITEMS)
  equal(inserts, before + 1)
  equal(Order.where(id: ids).order(:id).pluck(:item), ITEMS)
  equal(ids, ids.sort)
end

promise("schema.rb has the default, and dumping it draws no id") do
  before = number("SELECT leaf_segment_next('orders')")
  equal(schema_rb[/create_table "orders".*$/],
        %q[create_table "orders", id: :bigint, default: -> { "leaf_segment_next('orders'::text)" }, force: :cascade do |t|])
  equal(number("SELECT leaf_segment_next('orders')"), before + 1)
end

schema = schema_rb

promise("trap: structure.sql has the default, but no tag") do
  Tempfile.create("structure") do |file|
    config = ActiveRecord::Base.connection_db_config
    ActiveRecord::Tasks::PostgreSQLDatabaseTasks.new(config).structure_dump(file.path, nil)
    structure = File.read(file.path)
    equal(structure.include?("DEFAULT public.leaf_segment_next('orders'::text)"), true)
    equal(structure.include?("leaf_tag_create"), false)
    equal(structure.match?(/leaf\.alloc/), false)
  end
end

promise("trap: a database made from schema.rb lacks the tag") do
  ActiveRecord::Base.connection.execute("CREATE DATABASE activerecord_test")
  connect(database: "activerecord_test")
  eval(schema)
  begin
    Order.create!(item: "tea")
    raise "the tag exists"
  rescue ActiveRecord::StatementInvalid => e
    equal(e.cause.class, PG::UndefinedObject)
  end
end

promise("seeds create it, also where it exists") do
  2.times { create_tags }
  equal(Order.create!(item: "tea").id, 1)
end

exit(!$failed)
