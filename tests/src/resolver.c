/*
 * Names that are never resolved: the name "black.hole" leads to a name server that
 * does not answer. Loaded into a program before all other libraries.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

int
getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
			struct addrinfo **result)
{
	int			(*real) (const char *, const char *, const struct addrinfo *,
						 struct addrinfo **) = dlsym(RTLD_NEXT, "getaddrinfo");

	while (node != NULL && strcmp(node, "black.hole") == 0)
		sleep(60);
	return real(node, service, hints, result);
}
