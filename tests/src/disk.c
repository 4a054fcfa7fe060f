/*
 * While the file that LEAF_DISK_FULL names exists, no file grows: what would
 * make one longer fails as on a full disk. What overwrites goes on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Whether writing up to `end` (or, where that is negative, so much more) fails. */
static int
is_full(int fd, off_t end, size_t more)
{
	const char *flag = getenv("LEAF_DISK_FULL");
	struct stat file;

	if (!flag || access(flag, F_OK) != 0 || fstat(fd, &file) != 0 || !S_ISREG(file.st_mode))
		return 0;
	if (end < 0)
		end = ((fcntl(fd, F_GETFL) & O_APPEND) ? file.st_size : lseek(fd, 0, SEEK_CUR)) + more;
	if (end <= file.st_size)
		return 0;
	errno = ENOSPC;
	return 1;
}

static size_t
length(const struct iovec *parts, int count)
{
	size_t sum = 0;

	while (count-- > 0)
		sum += parts[count].iov_len;
	return sum;
}

#define REAL(name) ((__typeof__(&name)) dlsym(RTLD_NEXT, #name))

ssize_t
write(int fd, const void *data, size_t count)
{
	/* The server's log is told of it all. */
	if (fd > STDERR_FILENO && is_full(fd, -1, count))
		return -1;
	return REAL(write)(fd, data, count);
}

ssize_t
pwrite(int fd, const void *data, size_t count, off_t at)
{
	return is_full(fd, at + count, 0) ? -1 : REAL(pwrite)(fd, data, count, at);
}

ssize_t
pwrite64(int fd, const void *data, size_t count, off64_t at)
{
	return is_full(fd, at + count, 0) ? -1 : REAL(pwrite64)(fd, data, count, at);
}

ssize_t
pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
	return is_full(fd, at + length(parts, count), 0) ? -1 : REAL(pwritev)(fd, parts, count, at);
}

ssize_t
pwritev64(int fd, const struct iovec *parts, int count, off64_t at)
{
	return is_full(fd, at + length(parts, count), 0) ? -1 : REAL(pwritev64)(fd, parts, count, at);
}

int
posix_fallocate(int fd, off_t at, off_t count)
{
	return is_full(fd, at + count, 0) ? ENOSPC : REAL(posix_fallocate)(fd, at, count);
}

int
posix_fallocate64(int fd, off64_t at, off64_t count)
{
	return is_full(fd, at + count, 0) ? ENOSPC : REAL(posix_fallocate64)(fd, at, count);
}
