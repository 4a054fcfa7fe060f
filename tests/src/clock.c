/*
 * libfaketime shows a process the real clock while it waits in select(). The
 * postmaster of PostgreSQL 15 does all its work there, in signal handlers, and
 * whatever process it starts from one would keep the real clock for ever. So it
 * gets a select() that libfaketime knows nothing of.
 */
#define _GNU_SOURCE
#include <sys/select.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int
select(int count, fd_set *readable, fd_set *writable, fd_set *failed, struct timeval *timeout)
{
	struct timespec span;

	if (timeout)
	{
		span.tv_sec = timeout->tv_sec;
		span.tv_nsec = timeout->tv_usec * 1000;
	}
	return syscall(SYS_pselect6, count, readable, writable, failed, timeout ? &span : NULL, NULL);
}
