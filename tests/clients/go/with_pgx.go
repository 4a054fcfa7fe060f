// pgx.

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v4"
	"github.com/jackc/pgx/v4/pgxpool"
)

// region insert
func insert(ctx context.Context, pool *pgxpool.Pool, item string) (id int64, err error) {
	row := pool.QueryRow(ctx, "INSERT INTO orders (item) VALUES ($1) RETURNING id", item)
	err = row.Scan(&id)
	return id, err
}

// endregion

// region bulk
func insertAll(ctx context.Context, pool *pgxpool.Pool, items []string) ([]int64, error) {
	sql := "INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id"
	rows, err := pool.Query(ctx, sql, items)
	if err != nil {
		return nil, err
	}
	return scanIDs(rows)
}

func scanIDs(rows pgx.Rows) ([]int64, error) {
	defer rows.Close()
	var ids []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return ids, rows.Err()
}

// endregion

// region copy
func copyAll(ctx context.Context, pool *pgxpool.Pool, items []string) ([]int64, error) {
	drawn, err := pool.Query(ctx, "SELECT leaf_segment_batch('orders', $1)", len(items))
	if err != nil {
		return nil, err
	}
	ids, err := scanIDs(drawn)
	if err != nil {
		return nil, err
	}
	rows := pgx.CopyFromSlice(len(items), func(i int) ([]interface{}, error) {
		return []interface{}{ids[i], items[i]}, nil
	})
	_, err = pool.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id", "item"}, rows)
	return ids, err
}

// endregion

// region poll
// poll handles what is new in the outbox.
func poll(ctx context.Context, pool *pgxpool.Pool, handle func(what string) error) error {
	return pool.BeginFunc(ctx, func(tx pgx.Tx) error {
		var xid string
		var id int64
		row := tx.QueryRow(ctx, "SELECT xid::text, id FROM outbox_position FOR UPDATE")
		if err := row.Scan(&xid, &id); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			SELECT o.xid::text, o.id, o.what FROM outbox AS o
			 WHERE (o.xid, o.id) > ($1::text::xid8, $2)
			   AND o.xid < pg_snapshot_xmin(pg_current_snapshot())
			 ORDER BY o.xid, o.id LIMIT 1000`, xid, id)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var what string
			if err := rows.Scan(&xid, &id, &what); err != nil {
				return err
			}
			if err := handle(what); err != nil {
				return err
			}
		}
		if err := rows.Err(); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE outbox_position SET xid = $1::text::xid8, id = $2", xid, id)
		return err
	})
}

// endregion

// region json
type Event struct {
	ID   int64  `json:"id,string"`
	What string `json:"what"`
}

// endregion

func main() {
	ctx := context.Background()
	pool := must(pgxpool.Connect(ctx, ""))
	defer pool.Close()

	promise("pgx: an insert returns its id", func() {
		id := must(insert(ctx, pool, "tea"))
		equal(stored([]int64{id}), []string{"tea"})
	})
	promise("pgx: an array inserts 1,000 rows in one statement and returns their ids in order", func() {
		before := statements("^insert into orders")
		ids := must(insertAll(ctx, pool, items()))
		equal(stored(ids), items())
		equal(statements("^insert into orders"), before+1)
	})
	promise("pgx: CopyFrom stores ids that were drawn before", func() {
		equal(stored(must(copyAll(ctx, pool, items()))), items())
	})
	promise("pgx: CopyFrom without the id column draws the ids itself", func() {
		var last int64
		row := pool.QueryRow(ctx, "SELECT leaf_segment_next('orders')")
		must(0, row.Scan(&last))
		rows := pgx.CopyFromRows([][]interface{}{{"a"}, {"b"}})
		must(pool.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"item"}, rows))
		equal(stored([]int64{last + 1, last + 2}), []string{"a", "b"})
	})
	promise("pgx: trap: CopyFrom stores nil as NULL, not as the default", func() {
		rows := pgx.CopyFromRows([][]interface{}{{nil, "a"}})
		_, err := pool.CopyFrom(ctx, pgx.Identifier{"orders"}, []string{"id", "item"}, rows)
		equal(err != nil, true)
	})
	promise("go: trap: JSON that is decoded into interface{} has float64, which round ids", func() {
		var id int64
		row := pool.QueryRow(ctx, "INSERT INTO events (id, what) VALUES (leaf_snowflake_next() | 1, 'x') RETURNING id")
		must(0, row.Scan(&id))
		var decoded map[string]interface{}
		must(0, json.Unmarshal([]byte(fmt.Sprintf(`{"id": %d}`, id)), &decoded))
		equal(int64(decoded["id"].(float64)) == id, false)
		text := string(must(json.Marshal(Event{ID: id, What: "x"})))
		equal(text, fmt.Sprintf(`{"id":"%d","what":"x"}`, id))
		var event Event
		must(0, json.Unmarshal([]byte(text), &event))
		equal(event.ID, id)
	})
	promise("pgx: a poller of an outbox misses no row of a transaction that commits late", func() {
		var seen []string
		see := func(what string) error {
			seen = append(seen, what)
			return nil
		}
		late := must(pool.Begin(ctx))
		must(late.Exec(ctx, "INSERT INTO outbox (what) VALUES ('drawn first')"))
		must(pool.Exec(ctx, "INSERT INTO outbox (what) VALUES ('committed first')"))
		must(0, poll(ctx, pool, see))
		equal(len(seen), 0)
		must(0, late.Commit(ctx))
		// The loader may be in a transaction, which holds the poller up.
		for end := time.Now().Add(time.Minute); len(seen) < 2 && time.Now().Before(end); {
			must(0, poll(ctx, pool, see))
		}
		must(0, poll(ctx, pool, see))
		equal(seen, []string{"drawn first", "committed first"})
	})
	end()
}
