/* What a function called from SQL costs at least. Like leaf_segment_next, these take a tag. */
#include "postgres.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(constant);
PG_FUNCTION_INFO_V1(ascending);

/* The minimum of any function. */
Datum
constant(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(42);
}

/* The minimum of one whose results ascend over all sessions: they share one counter, which is
 * alone in its cache line, here in a file of the data directory. */
Datum
ascending(PG_FUNCTION_ARGS)
{
	static _Atomic int64 *counter = NULL;

	if (unlikely(counter == NULL))
	{
		int			file = open("bench_counter", O_RDWR | O_CREAT, 0600);
		void	   *memory;

		if (file < 0 || ftruncate(file, 4096) != 0)
			elog(ERROR, "could not make the file of the counter: %m");
		memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
		close(file);
		if (memory == MAP_FAILED)
			elog(ERROR, "could not map the counter: %m");
		counter = memory;
	}
	PG_RETURN_INT64(atomic_fetch_add(counter, 1));
}
