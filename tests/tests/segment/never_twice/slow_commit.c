/* LOAD makes the end of each commit of the session slow: the time between the moment when
 * others see it and the moment when the callbacks of other libraries are called. */
#include "postgres.h"
#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static void
at_end(XactEvent event, void *arg)
{
	if (event == XACT_EVENT_COMMIT)
		pg_usleep(500000L);
}

void
_PG_init(void)
{
	RegisterXactCallback(at_end, NULL);
}
