/* The least that a function called from SQL can cost: it takes a tag, as
 * leaf_segment_next does, and returns a constant. */
#include "postgres.h"
#include "fmgr.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(constant);

Datum
constant(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(42);
}
