// A relay that copies bytes between a client and the server, one thread, nothing parsed: the least that a proxy in a
// process of its own can cost. bench/ports.mjs compiles it. Usage: relay PORT-OF-THE-SERVER; prints its own port.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS = 4096, EVENTS = 64, BUFFER_BYTES = 256 * 1024 };

static int other[DESCRIPTORS];
static char buffer[BUFFER_BYTES];

static int check(int result, const char *what)
{
	if (result < 0) {
		perror(what);
		exit(1);
	}
	return result;
}

static struct sockaddr_in loopback(int port)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static void watch(int epoll, int descriptor)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
	int one = 1;
	setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	check(epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event), "epoll_ctl");
}

static void join(int epoll, int listener, int port)
{
	struct sockaddr_in address = loopback(port);
	int client = check(accept4(listener, NULL, NULL, SOCK_CLOEXEC), "accept");
	int server = check(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
	check(connect(server, (struct sockaddr *)&address, sizeof(address)), "connect");
	if (client >= DESCRIPTORS || server >= DESCRIPTORS)
		exit(1);
	other[client] = server;
	other[server] = client;
	watch(epoll, client);
	watch(epoll, server);
}

// Blocks while the reader is slow: the clients of the benchmark never are for long.
static int copy(int from)
{
	ssize_t bytes = recv(from, buffer, sizeof(buffer), MSG_DONTWAIT);
	if (bytes < 0 && errno == EAGAIN)
		return 1;
	for (ssize_t sent = 0; bytes > 0 && sent < bytes;) {
		ssize_t now = send(other[from], buffer + sent, bytes - sent, MSG_NOSIGNAL);
		if (now < 0)
			return 0;
		sent += now;
	}
	return bytes > 0;
}

int main(int count, char **arguments)
{
	if (count != 2)
		return 2;
	int listener = check(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket");
	struct sockaddr_in address = loopback(0);
	socklen_t size = sizeof(address);
	check(bind(listener, (struct sockaddr *)&address, size), "bind");
	check(listen(listener, 512), "listen");
	check(getsockname(listener, (struct sockaddr *)&address, &size), "getsockname");
	printf("%d\n", ntohs(address.sin_port));
	fflush(stdout);
	int epoll = check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
	watch(epoll, listener);
	for (;;) {
		struct epoll_event events[EVENTS];
		int ready = epoll_wait(epoll, events, EVENTS, -1);
		for (int i = 0; i < ready; i++) {
			int from = events[i].data.fd;
			if (from == listener) {
				join(epoll, listener, atoi(arguments[1]));
			} else if (other[from] > 0 && !copy(from)) {
				int to = other[from];
				other[from] = other[to] = 0;
				close(from);
				close(to);
			}
		}
	}
}
