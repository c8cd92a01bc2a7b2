"""The other end of tests/aioquic.rs: one stream with a pattern of bytes.

aioquic_peer.py client PORT BYTES       sends the pattern, and expects "whole" as the reply
aioquic_peer.py server DIRECTORY BYTES  prints its port, writes DIRECTORY/certificate.der, and replies "whole" to the pattern
"""

import asyncio
import datetime
import ssl
import sys

from aioquic.asyncio import connect, serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PROTOCOL = "longfat-test"


def pattern(size):
    return bytes(range(251)) * (size // 251) + bytes(range(size % 251))


async def send(port, size):
    configuration = QuicConfiguration(is_client=True, alpn_protocols=[PROTOCOL], verify_mode=ssl.CERT_NONE)
    async with connect("127.0.0.1", port, configuration=configuration) as client:
        reader, writer = await client.create_stream()
        writer.write(pattern(size))
        writer.write_eof()
        assert await reader.read() == b"whole"


def certificate(directory):
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    built = builder.sign(key, hashes.SHA256())
    with open(directory + "/certificate.pem", "wb") as file:
        file.write(built.public_bytes(serialization.Encoding.PEM))
    with open(directory + "/key.pem", "wb") as file:
        file.write(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                     serialization.NoEncryption()))
    with open(directory + "/certificate.der", "wb") as file:
        file.write(built.public_bytes(serialization.Encoding.DER))


async def receive(directory, size):
    certificate(directory)
    configuration = QuicConfiguration(is_client=False, alpn_protocols=[PROTOCOL])
    configuration.load_cert_chain(directory + "/certificate.pem", directory + "/key.pem")
    done = asyncio.get_running_loop().create_future()

    async def handle(reader, writer):
        is_whole = await reader.read() == pattern(size)
        writer.write(b"whole" if is_whole else b"wrong")
        writer.write_eof()
        done.set_result(is_whole)

    server = await serve("127.0.0.1", 0, configuration=configuration,
                         stream_handler=lambda reader, writer: asyncio.ensure_future(handle(reader, writer)))
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    assert await done
    # The reply and its acknowledgement.
    await asyncio.sleep(1)
    server.close()


role, argument, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
asyncio.run(send(int(argument), size) if role == "client" else receive(argument, size))
