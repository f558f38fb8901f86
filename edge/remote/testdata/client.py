"""A participant in Python: it registers with a run, says how it was received, and prints the run's status.

    python3 client.py KEY@HOST:PORT NUMERICS

It needs grpcio and cryptography. The few messages are encoded by hand, to show what travels; stubs that are generated from
protocol/message/*.proto do the same.
"""
import datetime
import os
import socket
import ssl
import sys
import tempfile
import threading

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import NameOID


def identity():
    """A new key, which is who we are, and the self-signed certificate that carries it, both as PEM."""
    key = ed25519.Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "iota")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
                   .serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
                   .not_valid_after(now + datetime.timedelta(days=365)).sign(key, None))
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), certificate.public_bytes(Encoding.PEM)


def pinned(host, port, key, own):
    """The orchestrator's own certificate, fetched beforehand and compared with the key of the join string."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "own.pem")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as f:
            f.write(own[0] + own[1])
        context.load_cert_chain(path)
    with socket.create_connection((host, port), 10) as raw, context.wrap_socket(raw, server_hostname="iota") as s:
        certificate = x509.load_der_x509_certificate(s.getpeercert(binary_form=True))
    found = certificate.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()
    if found != key:
        sys.exit(f"the orchestrator at {host}:{port} has key {found}, not {key}: check the join string")
    return certificate.public_bytes(Encoding.PEM)


def field(number, value):
    """One length-delimited field."""
    size, out = len(value), bytearray([number << 3 | 2])
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    return bytes(out) + bytes([size]) + value


def fields(message):
    """The fields of a message, by number."""
    found, at = {}, 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value

    while at < len(message):
        tag = varint()
        size = {0: 0, 1: 8, 5: 4}.get(tag & 7)
        if tag & 7 == 0:
            found[tag >> 3] = varint()
            continue
        if size is None:
            size = varint()
        found[tag >> 3], at = message[at:at + size], at + size
    return found


def session(channel, numerics, leave):
    """Registers, then says every five seconds that it lives, until told to leave; yields the orders that come."""
    name = os.urandom(16)

    def envelopes():
        yield field(1, field(1, name) + field(2, numerics.encode()))  # Envelope.register: session, numerics
        while not leave.wait(5):
            yield field(2, field(1, name))  # Envelope.heartbeat: session

    for order in channel.stream_stream("/iota.v1.Orchestrator/Session")(envelopes(), timeout=30):
        yield fields(order)


def main(join, numerics):
    key, _, place = join.partition("@")
    host, _, port = place.rpartition(":")
    own = identity()
    root = pinned(host, int(port), key, own)
    credentials = grpc.ssl_channel_credentials(root, own[0], own[1])
    leave = threading.Event()
    with grpc.secure_channel(place, credentials, options=[("grpc.ssl_target_name_override", "iota")]) as channel:
        terms = fields(channel.unary_unary("/iota.v1.Orchestrator/Terms")(b"", timeout=30))
        print("protocol", terms[1])
        for order in session(channel, numerics, leave):
            if 1 in order:  # Order.welcome
                print("welcome")
                break
            if 4 in order:  # Order.refusal: reason
                print("refused:", fields(order[4])[3].decode())
                break
        leave.set()
        status = fields(channel.unary_unary("/iota.v1.Orchestrator/Status")(b"", timeout=30))
        print("status", status[1].decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
