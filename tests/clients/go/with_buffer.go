// A buffer of ids in a service, on pgx.

package main

import (
	"context"
	"os"
	"sync"

	"github.com/jackc/pgtype"
	"github.com/jackc/pgx/v4/pgxpool"
)

// region buffer
// In the plain edition: "CALL leaf_segment_reserve($1, $2, NULL)"
var reserve = "SELECT leaf_segment_reserve($1, $2)"

// IdBuffer hands out ids of a tag from a block that it reserves. Goroutines can share it.
type IdBuffer struct {
	Pool *pgxpool.Pool
	Tag  string
	Size int64

	mutex     sync.Mutex
	next, end int64
}

// Next returns the next id.
func (b *IdBuffer) Next(ctx context.Context) (int64, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.next == b.end {
		var block pgtype.Int8range
		if err := b.Pool.QueryRow(ctx, reserve, b.Tag, b.Size).Scan(&block); err != nil {
			return 0, err
		}
		b.next, b.end = block.Lower.Int, block.Upper.Int
	}
	id := b.next
	b.next++
	return id, nil
}

// endregion

func main() {
	ctx := context.Background()
	if os.Getenv("PGDATABASE") == "client_plain" {
		reserve = "CALL leaf_segment_reserve($1, $2, NULL)"
	}
	pool := must(pgxpool.Connect(ctx, ""))
	defer pool.Close()

	promise("go buffer: 64 goroutines draw 32,000 ids, no id comes twice, with a statement per 1,000", func() {
		buffer := &IdBuffer{Pool: pool, Tag: "orders", Size: 1000}
		before := statements("leaf_segment_reserve")
		drawn := make([][]int64, 64)
		var all sync.WaitGroup
		for i := range drawn {
			all.Add(1)
			go func(i int) {
				defer all.Done()
				for len(drawn[i]) < 500 {
					id, err := buffer.Next(ctx)
					if err != nil {
						return
					}
					drawn[i] = append(drawn[i], id)
				}
			}(i)
		}
		all.Wait()
		ids := map[int64]bool{}
		for _, of := range drawn {
			for i, id := range of {
				ids[id] = true
				equal(i == 0 || of[i-1] < id, true)
			}
		}
		equal(len(ids), 32000)
		equal(statements("leaf_segment_reserve"), before+32)
	})
	promise("go buffer: after an error it goes on", func() {
		buffer := &IdBuffer{Pool: pool, Tag: "later_go", Size: 10}
		_, err := buffer.Next(ctx)
		equal(err != nil, true)
		must(pool.Exec(ctx, "SELECT leaf_tag_create('later_go')"))
		for id := int64(1); id <= 25; id++ {
			equal(must(buffer.Next(ctx)), id)
		}
	})
	end()
}
