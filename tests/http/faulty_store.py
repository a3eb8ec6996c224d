"""An HTTPS object store on the loopback whose paths say how it fails, for tests of transfers."""
import hashlib
import os
import socket
import ssl
import subprocess
import threading
import time

SECRET = "X-Amz-Signature=5ec7e7-51gna7u7e"


def certificate(folder, name, host="localhost"):
    """Paths of a self-signed certificate for a host, and of its key."""
    cert, key = os.path.join(folder, name + ".pem"), os.path.join(folder, name + ".key")
    alt = "subjectAltName=DNS:%s" % host
    if host == "localhost":
        alt += ",IP:127.0.0.1,IP:::1"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=" + host,
                    "-addext", alt, "-keyout", key, "-out", cert],
                   check=True, stderr=subprocess.DEVNULL)
    return cert, key


def open_store(folder):
    """A store on localhost, and the settings of a stepd that may reach it."""
    cert, key = certificate(folder, "good")
    return Store(cert, key), {"STEPD_CA_FILE": cert, "STEPD_EGRESS_ALLOW": "localhost"}


class Store:
    def __init__(self, cert, key, maximum=None, address="127.0.0.1"):
        self.objects, self.puts, self.connections, self.hanging = {}, [], 0, 0
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(cert, key)
        if maximum:
            self.context.minimum_version = ssl.TLSVersion.TLSv1
            self.context.maximum_version = maximum
            self.context.set_ciphers("ALL:@SECLEVEL=0")
        # "localhost" may be ::1 first; nobody there is an answer too.
        self.listener = socket.create_server((address, 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def url(self, path, host="localhost"):
        return "https://%s:%d%s?%s" % (host, self.port, path, SECRET)

    def accept(self):
        while True:
            sock, _ = self.listener.accept()
            self.connections += 1
            threading.Thread(target=self.serve, args=(sock,), daemon=True).start()

    def serve(self, sock):
        try:
            sock = self.context.wrap_socket(sock, server_side=True)
            with sock, sock.makefile("rb") as file:
                self.answer(sock, file)
        except (OSError, ValueError):
            pass  # it went away, or sent no request at all

    def answer(self, sock, file):
        method, target, _ = file.readline().decode().split()
        path = target.split("?")[0]
        headers = {}
        while (line := file.readline()) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        fault = path.split("/")[1]
        if fault == "hang":
            self.hanging += 1
            time.sleep(60)
        if fault == "cut":
            file.read(100000)
            return
        if fault == "redirect":
            file.read(int(headers.get("content-length", 0)))
            self.reply(sock, "307 Temporary Redirect", b"", "Location: %s\r\n" % self.url("/ok/moved"))
            return
        if fault.isdigit():
            self.reply(sock, fault + " Fault", b"<Error>no " + SECRET.encode() + b"</Error>")
            return
        if method == "PUT":
            self.put(sock, file, fault, path, headers)
        else:
            self.get(sock, fault, path)

    def put(self, sock, file, fault, path, headers):
        left = int(headers["content-length"])
        if fault == "early":  # says yes before it has anything
            self.reply(sock, "200 OK", b"")
            return
        data = b""
        while left > 0:
            if fault == "slow":  # slower than it may take, but never still
                time.sleep(0.2)
            part = file.read(min(left, 4096 if fault == "slow" else 65536))
            if not part:
                return
            data, left = data + part, left - len(part)
        if fault == "stall":  # everything taken, and then nothing
            time.sleep(60)
        self.puts.append((path, headers, hashlib.sha256(data).hexdigest()))
        self.objects[path] = data
        if fault == "flood":
            self.reply(sock, "200 OK", b"x" * (4 << 20))
        else:
            self.reply(sock, "200 OK", b"")

    def get(self, sock, fault, path):
        data = self.objects.get(path)
        if fault == "large":
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 8589934593\r\n\r\nstate 1")
            time.sleep(2)
        elif fault == "endless":
            sock.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            while True:
                sock.sendall(b"10000\r\n" + b"s" * 0x10000 + b"\r\n")
        elif fault == "short":
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nstate 1")
        elif fault == "open-end":  # neither a length nor a proper end of TLS
            sock.sendall(b"HTTP/1.1 200 OK\r\n\r\nstate 1")
            sock.shutdown(socket.SHUT_RDWR)
        elif fault == "partial":
            self.reply(sock, "206 Partial Content", b"state 1")
        elif fault == "drip":
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
            for _ in range(100):
                sock.sendall(b"s")
                time.sleep(0.2)
        elif data is None:
            self.reply(sock, "404 Not Found", b"")
        else:
            self.reply(sock, "200 OK", data)

    def reply(self, sock, status, body, more=""):
        sock.sendall(("HTTP/1.1 %s\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n"
                      % (status, more, len(body))).encode() + body)
