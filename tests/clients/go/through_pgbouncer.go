// 200 goroutines behind a PgBouncer in transaction mode, which has 20 connections to the server.

package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/jackc/pgx/v4/pgxpool"
)

// region pgx
func connectPgx(ctx context.Context, host string) (*pgxpool.Pool, error) {
	return pgxpool.Connect(ctx, "port=6432 statement_cache_mode=describe host="+host)
}

// endregion

// region pq
func connectPq(host string) (*sql.DB, error) {
	return sql.Open("postgres", "port=6432 binary_parameters=yes host="+host)
}

// endregion

const goroutines, rounds = 200, 20

// draw draws in many goroutines at once; returns the ids and one of the errors.
func draw(one func() (int64, error)) (map[int64]bool, error) {
	var (
		mutex sync.Mutex
		all   sync.WaitGroup
		fault error
		ids   = map[int64]bool{}
	)
	for i := 0; i < goroutines; i++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < rounds; i++ {
				id, err := one()
				mutex.Lock()
				if err != nil {
					fault = err
				} else {
					ids[id] = true
				}
				mutex.Unlock()
			}
		}()
	}
	all.Wait()
	return ids, fault
}

func isOfPrepared(err error) {
	if err == nil || !strings.Contains(err.Error(), "prepared statement") {
		panic(fmt.Sprintf("not an error of a prepared statement: %v", err))
	}
}

func main() {
	ctx, pooler := context.Background(), os.Getenv("POOLER")
	query := "SELECT leaf_segment_next($1)"
	withPgx := func(pool *pgxpool.Pool) func() (int64, error) {
		return func() (id int64, err error) {
			err = pool.QueryRow(ctx, query, "orders").Scan(&id)
			return id, err
		}
	}
	withPq := func(db *sql.DB) func() (int64, error) {
		return func() (id int64, err error) {
			err = db.QueryRow(query, "orders").Scan(&id)
			return id, err
		}
	}

	promise("pgx: draws through PgBouncer without prepared statements", func() {
		pool := must(connectPgx(ctx, pooler+" pool_max_conns=100"))
		defer pool.Close()
		equal(len(must(draw(withPgx(pool)))), goroutines*rounds)
	})
	promise("pgx: trap: its prepared statements fail, because another session executes them", func() {
		pool := must(pgxpool.Connect(ctx, "port=6432 pool_max_conns=100 host="+pooler))
		defer pool.Close()
		_, err := draw(withPgx(pool))
		isOfPrepared(err)
	})
	promise("database/sql: draws through PgBouncer with binary_parameters", func() {
		db := must(connectPq(pooler + " sslmode=disable"))
		defer db.Close()
		db.SetMaxOpenConns(100)
		equal(len(must(draw(withPq(db)))), goroutines*rounds)
	})
	promise("database/sql: trap: without, a statement fails, because another one is prepared in its session", func() {
		db := must(sql.Open("postgres", "port=6432 sslmode=disable host="+pooler))
		defer db.Close()
		db.SetMaxOpenConns(100)
		_, err := draw(func() (sum int64, err error) {
			if err = db.QueryRow("SELECT $1::bigint + $2", 1, 2).Scan(&sum); err != nil {
				return 0, err
			}
			return withPq(db)()
		})
		isOfPrepared(err)
	})
	end()
}
