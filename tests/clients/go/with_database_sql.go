// database/sql, with lib/pq.

package main

import (
	"database/sql"

	"github.com/lib/pq"
)

// region insert
func insert(db *sql.DB, item string) (id int64, err error) {
	row := db.QueryRow("INSERT INTO orders (item) VALUES ($1) RETURNING id", item)
	err = row.Scan(&id)
	return id, err
}

// endregion

// region bulk
func insertAll(db *sql.DB, items []string) ([]int64, error) {
	insert := "INSERT INTO orders (item) SELECT unnest($1::text[]) RETURNING id"
	rows, err := db.Query(insert, pq.Array(items))
	if err != nil {
		return nil, err
	}
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

func main() {
	db := must(sql.Open("postgres", "sslmode=disable"))
	defer db.Close()

	promise("database/sql: an insert returns its id", func() {
		id := must(insert(db, "tea"))
		equal(stored([]int64{id}), []string{"tea"})
	})
	promise("database/sql: trap: LastInsertId is an error with lib/pq", func() {
		result := must(db.Exec("INSERT INTO orders (item) VALUES ('x')"))
		_, err := result.LastInsertId()
		equal(err != nil, true)
	})
	promise("database/sql: an array inserts 1,000 rows in one statement and returns their ids in order", func() {
		before := statements("^insert into orders")
		ids := must(insertAll(db, items()))
		equal(stored(ids), items())
		equal(statements("^insert into orders"), before+1)
	})
	end()
}
