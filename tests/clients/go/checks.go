// What the checks of the Go clients share. They connect as the environment says: PGHOST,
// PGPORT, PGUSER, PGPASSWORD, PGDATABASE.

package main

import (
	"database/sql"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"

	"github.com/lib/pq"
)

var failed = false

// promise runs a check under the promise that it defends; prints a line for it.
func promise(text string, check func()) {
	defer func() {
		if fault := recover(); fault != nil {
			failed = true
			fmt.Println("FAILED  " + text)
			fmt.Println(fault)
			os.Stdout.Write(debug.Stack())
		}
	}()
	check()
	fmt.Println("ok      " + text)
}

// end ends the program.
func end() {
	if failed {
		os.Exit(1)
	}
}

// must returns what a call has returned that must not fail.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func equal(found, expected interface{}) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("expected %v, found %v", expected, found))
	}
}

// server is a connection of the checks alone.
var server = must(sql.Open("postgres", "sslmode=disable"))

// statements returns how many statements that match the server has counted in this database.
func statements(like string) (calls int) {
	query := `SELECT coalesce(sum(calls), 0) FROM stats.pg_stat_statements
	           WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
	             AND query ~* $1 AND query !~ 'pg_stat_statements'`
	if err := server.QueryRow(query, like).Scan(&calls); err != nil {
		panic(err)
	}
	return calls
}

// stored returns the items of these ids, in the order of the ids.
func stored(ids []int64) (items []string) {
	query := `SELECT array_agg(o.item ORDER BY i.n)
	            FROM unnest($1::bigint[]) WITH ORDINALITY AS i (id, n) JOIN orders AS o USING (id)`
	if err := server.QueryRow(query, pq.Array(ids)).Scan(pq.Array(&items)); err != nil {
		panic(err)
	}
	return items
}

// items returns what 1,000 orders are of.
func items() []string {
	items := make([]string, 1000)
	for i := range items {
		items[i] = fmt.Sprintf("item %d", i)
	}
	return items
}
