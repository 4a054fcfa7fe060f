/* The minimum cost of a function called from SQL: like leaf_segment_next, it takes
 * a tag, but it returns a constant. */
#include "postgres.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(constant);

Datum
constant(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(42);
}
