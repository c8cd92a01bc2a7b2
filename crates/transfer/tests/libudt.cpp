// One end of a UDT stream with libudt: sends or receives bytes that count up.
//   libudt send PORT BYTES      connects to 127.0.0.1 and sends
//   libudt receive BYTES        listens, prints its port, receives and checks
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <udt/udt.h>
#include <unistd.h>
#include <vector>

static int fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, UDT::getlasterror().getErrorMessage());
	return 1;
}

static char byte_at(long at)
{
	return char(at % 251);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	UDT::startup();
	UDTSOCKET socket = UDT::socket(AF_INET, SOCK_STREAM, 0);
	sockaddr_in address;
	memset(&address, 0, sizeof address);
	address.sin_family = AF_INET;
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	std::vector<char> buffer(65536);
	long at = 0;
	if (strcmp(argv[1], "send") == 0 && argc > 3) {
		long bytes = atol(argv[3]);
		address.sin_port = htons(atoi(argv[2]));
		if (UDT::ERROR == UDT::connect(socket, (sockaddr *)&address, sizeof address))
			return fail("connect");
		while (at < bytes) {
			long count = std::min(long(buffer.size()), bytes - at);
			for (long i = 0; i < count; i++)
				buffer[i] = byte_at(at + i);
			for (long sent = 0; sent < count;) {
				int result = UDT::send(socket, &buffer[sent], count - sent, 0);
				if (result == UDT::ERROR)
					return fail("send");
				sent += result;
			}
			at += count;
		}
	} else {
		long bytes = atol(argv[2]);
		if (UDT::ERROR == UDT::bind(socket, (sockaddr *)&address, sizeof address))
			return fail("bind");
		int length = sizeof address;
		UDT::getsockname(socket, (sockaddr *)&address, &length);
		if (UDT::ERROR == UDT::listen(socket, 1))
			return fail("listen");
		printf("%d\n", ntohs(address.sin_port));
		fflush(stdout);
		UDTSOCKET peer = UDT::accept(socket, (sockaddr *)&address, &length);
		if (peer == UDT::INVALID_SOCK)
			return fail("accept");
		while (at < bytes) {
			int result = UDT::recv(peer, buffer.data(), buffer.size(), 0);
			if (result == UDT::ERROR)
				return fail("recv");
			for (int i = 0; i < result; i++)
				if (buffer[i] != byte_at(at + i)) {
					fprintf(stderr, "wrong byte %ld\n", at + i);
					return 1;
				}
			at += result;
		}
		// The sender closes first: libudt closes without an acknowledgement of the last packets.
		UDT::recv(peer, buffer.data(), buffer.size(), 0);
		UDT::close(peer);
	}
	UDT::close(socket);
	UDT::cleanup();
	return 0;
}
