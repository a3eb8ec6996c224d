"""What a request may look like: anything that two readers could read in two ways is refused."""
from daemon import BEARER, Stepd, check, finish
from fault_table import held

HOST = "Host: x\r\n"
AUTH = BEARER + "\r\n"
JSON = "Content-Type: application/json\r\n"
SIGN = "POST /v1/objects:sign HTTP/1.1\r\n" + HOST + AUTH + JSON

# name, bytes, status of the only answer; the connection is closed after it
REFUSED = [
    ("no request line", "GET\r\n\r\n", 400),
    ("two words", "GET /healthz\r\n\r\n", 400),
    ("two spaces", "GET  /healthz HTTP/1.1\r\n" + HOST + "\r\n", 400),
    ("four words", "GET /healthz x HTTP/1.1\r\n" + HOST + "\r\n", 400),
    ("bad method", "G<T /healthz HTTP/1.1\r\n" + HOST + "\r\n", 400),
    ("unknown method", "BREW /healthz HTTP/1.1\r\n" + HOST + "\r\n", 501),
    ("lower-case method", "get /healthz HTTP/1.1\r\n" + HOST + "\r\n", 501),
    ("HTTP/2.0", "GET /healthz HTTP/2.0\r\n" + HOST + "\r\n", 505),
    ("HTTP/9.9", "GET /healthz HTTP/9.9\r\n" + HOST + "\r\n", 505),
    ("HTTP/1.2", "GET /healthz HTTP/1.2\r\n" + HOST + "\r\n", 505),
    ("HTTP/1.10", "GET /healthz HTTP/1.10\r\n" + HOST + "\r\n", 400),
    ("http/1.1", "GET /healthz http/1.1\r\n" + HOST + "\r\n", 400),
    ("bare LF", "GET /healthz HTTP/1.1\nHost: x\n\n", 400),
    ("one bare LF", "GET /healthz HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400),
    ("bare CR", "GET /healthz HTTP/1.1\r\nHost: x\rA: b\r\n\r\n", 400),
    ("obs-fold", "GET /healthz HTTP/1.1\r\n" + HOST + "A: b\r\n c\r\n\r\n", 400),
    ("obs-fold by tab", "GET /healthz HTTP/1.1\r\n" + HOST + "A: b\r\n\tc\r\n\r\n", 400),
    ("space before the first field", "GET /healthz HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    ("no colon", "GET /healthz HTTP/1.1\r\n" + HOST + "broken\r\n\r\n", 400),
    ("no name", "GET /healthz HTTP/1.1\r\n" + HOST + ": b\r\n\r\n", 400),
    ("space before the colon", "GET /healthz HTTP/1.1\r\n" + HOST + "A : b\r\n\r\n", 400),
    ("name with a bad letter", "GET /healthz HTTP/1.1\r\n" + HOST + "A(: b\r\n\r\n", 400),
    ("NUL in the path", "GET /health\0z HTTP/1.1\r\n" + HOST + "\r\n", 400),
    ("NUL in a field", "GET /healthz HTTP/1.1\r\n" + HOST + "A: b\0c\r\n\r\n", 400),
    ("control in a field", "GET /healthz HTTP/1.1\r\n" + HOST + "A: b\x01c\r\n\r\n", 400),
    ("DEL in a field", "GET /healthz HTTP/1.1\r\n" + HOST + "A: b\x7fc\r\n\r\n", 400),
    ("raw bytes in the path", "GET /health\xc3\xa9 HTTP/1.1\r\n" + HOST + "\r\n", 400),
    ("fragment in the path", "GET /healthz#a HTTP/1.1\r\n" + HOST + "\r\n", 400),
    ("no slash", "GET healthz HTTP/1.1\r\n" + HOST + "\r\n", 400),
    ("no Host", "GET /healthz HTTP/1.1\r\n\r\n", 400),
    ("two Hosts", "GET /healthz HTTP/1.1\r\n" + HOST + HOST + "\r\n", 400),
    ("two lengths", SIGN + "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ", 400),
    ("two equal lengths", SIGN + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400),
    ("a list of lengths", SIGN + "Content-Length: 2, 2\r\n\r\n{}", 400),
    ("a signed length", SIGN + "Content-Length: +2\r\n\r\n{}", 400),
    ("a negative length", SIGN + "Content-Length: -2\r\n\r\n{}", 400),
    ("a hex length", SIGN + "Content-Length: 0x2\r\n\r\n{}", 400),
    ("an empty length", SIGN + "Content-Length: \r\n\r\n{}", 400),
    ("a length in two words", SIGN + "Content-Length: 1 2\r\n\r\n{}", 400),
    ("an endless length", SIGN + "Content-Length: 99999999999999999999\r\n\r\n{}", 400),
    ("length and chunks", SIGN + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
     "2\r\n{}\r\n0\r\n\r\n", 400),
    ("chunks and length", SIGN + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n"
     "2\r\n{}\r\n0\r\n\r\n", 400),
    ("two codings", SIGN + "Transfer-Encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 501),
    ("coding twice", SIGN + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"
     "2\r\n{}\r\n0\r\n\r\n", 400),
    ("an unknown coding", SIGN + "Transfer-Encoding: xchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 501),
    ("identity coding", SIGN + "Transfer-Encoding: identity\r\n\r\n{}", 501),
    ("a coding with a tail", SIGN + "Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n", 501),
    ("chunks in HTTP/1.0", "POST /v1/objects:sign HTTP/1.0\r\n" + AUTH + JSON +
     "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
    ("another expectation", SIGN + "Expect: 200-ok\r\nContent-Length: 2\r\n\r\n{}", 417),
    ("a long target", "GET /" + "a" * 9000 + " HTTP/1.1\r\n" + HOST + "\r\n", 414),
    ("long headers", "GET /healthz HTTP/1.1\r\n" + HOST + "A: " + "b" * 17000 + "\r\n\r\n", 431),
    ("many headers", "GET /healthz HTTP/1.1\r\n" + HOST + "A: b\r\n" * 70 + "\r\n", 431),
    ("two different codings", SIGN + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n"
     "2\r\n{}\r\n0\r\n\r\n", 400),
    ("a coding behind a tab", SIGN + "Transfer-Encoding:\tchunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 501),
    ("a coding behind a VT", SIGN + "Transfer-Encoding: \x0bchunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
    ("a coding in quotes", SIGN + "Transfer-Encoding: \"chunked\"\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 501),
    ("an empty coding", SIGN + "Transfer-Encoding:\r\nContent-Length: 2\r\n\r\n{}", 400),
    ("an empty coding alone", SIGN + "Transfer-Encoding:\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 501),
    ("a folded coding", SIGN + "Transfer-Encoding:\r\n chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 400),
    ("a coding with a space before its colon", SIGN + "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    ("a coding behind a bare LF", SIGN + "A: b\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("a length behind a bare CR", SIGN + "A: b\rContent-Length: 2\r\n\r\n{}", 400),
    ("a length with a space before its colon", SIGN + "Content-Length : 2\r\n\r\n{}", 400),
    ("a length with a NUL", SIGN + "Content-Length: 2\0\r\n\r\n{}", 400),
    ("a length with a tail", SIGN + "Content-Length: 2;\r\n\r\n{}", 400),
    ("lengths in two cases", SIGN + "Content-Length: 2\r\nCONTENT-LENGTH: 2\r\n\r\n{}", 400),
    ("length and chunks of a GET", "GET /healthz HTTP/1.1\r\n" + HOST + "Content-Length: 5\r\n"
     "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    ("length and chunks in HTTP/1.0", "POST /v1/objects:sign HTTP/1.0\r\n" + AUTH + JSON + "Content-Length: 2\r\n"
     "Transfer-Encoding: chunked\r\n\r\n{}", 400),
    ("another host in the target", "GET http://y/healthz HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    ("a Host that is a list", "GET /healthz HTTP/1.1\r\nHost: x, y\r\n\r\n", 400),
    ("a space in the Host", "GET /healthz HTTP/1.1\r\nHost: x y\r\n\r\n", 400),
    ("CONNECT", "CONNECT x:443 HTTP/1.1\r\n" + HOST + "\r\n", 400),
    ("the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("a TLS hello", "\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", 400),
]

CHUNKS = SIGN + "Transfer-Encoding: chunked\r\n\r\n"
BAD_CHUNKS = [
    ("no hex digit", "zz\r\n{}\r\n0\r\n\r\n"),
    ("no digit", "\r\n{}\r\n0\r\n\r\n"),
    ("a sign", "+2\r\n{}\r\n0\r\n\r\n"),
    ("a prefix", "0x2\r\n{}\r\n0\r\n\r\n"),
    ("a space first", " 2\r\n{}\r\n0\r\n\r\n"),
    ("LF after the size", "2\n{}\r\n0\r\n\r\n"),
    ("CR and no LF after the size", "2\rX{}\r\n0\r\n\r\n"),
    ("no line end after the data", "2\r\n{}0\r\n\r\n"),
    ("LF after the data", "2\r\n{}\n0\r\n\r\n"),
    ("CR and no LF after the data", "2\r\n{}\rX0\r\n\r\n"),
    ("a size that wraps around", "10000000000000002\r\n{}\r\n0\r\n\r\n"),
    ("a control in an extension", "2;a=\x01\r\n{}\r\n0\r\n\r\n"),
    ("LF in an extension", "2;a=\nb\r\n{}\r\n0\r\n\r\n"),
    ("an extension without end", "2;" + "a" * 5000 + "\r\n{}\r\n0\r\n\r\n"),
    ("trailers without end", "2\r\n{}\r\n0\r\n" + "a: b\r\n" * 2000 + "\r\n"),
    ("LF after the last chunk", "2\r\n{}\r\n0\n\n"),
    ("a space after the size", "2 \r\n{}\r\n0\r\n\r\n"),
    ("a size with an underscore", "0_2\r\n{}\r\n0\r\n\r\n"),
    ("a size of many zeros", "0" * 20 + "2\r\n{}\r\n0\r\n\r\n"),
    ("more data than the size", "1\r\n{}\r\n0\r\n\r\n"),
    ("a bare CR in an extension", "2;a=\rb\r\n{}\r\n0\r\n\r\n"),
    ("LF in a trailer", "2\r\n{}\r\n0\r\nA: b\nC: d\r\n\r\n"),
    ("NUL in a trailer", "2\r\n{}\r\n0\r\nA: \0\r\n\r\n"),
    ("a bare CR in a trailer", "2\r\n{}\r\n0\r\nA: b\rX\r\n\r\n"),
]
GOOD_CHUNKS = [
    ("one chunk", "2\r\n{}\r\n0\r\n\r\n"),
    ("leading zeros", "0002\r\n{}\r\n00\r\n\r\n"),
    ("byte by byte", "1\r\n{\r\n1\r\n}\r\n0\r\n\r\n"),
    ("extensions", "2;a=b;c=\"d\"\r\n{}\r\n0;last\r\n\r\n"),
    ("a trailer", "2\r\n{}\r\n0\r\nDigest: x\r\n\r\n"),
    ("upper-case hex", "A\r\n{        }\r\n0\r\n\r\n"),
]
GOOD = [
    ("plain", "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    ("HTTP/1.0", "GET /healthz HTTP/1.0\r\n\r\n"),
    ("an empty line first", "\r\nGET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    ("absolute form", "GET http://x/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    ("a query", "GET /healthz?a=%ff&b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    ("a path with escapes", "GET /%68ealth%7A HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"),
    ("Latin-1 in a field",
     "GET /healthz HTTP/1.1\r\nHost: x\r\nA: \xe9\r\nConnection: close\r\n\r\n"),
    ("an offer to upgrade", "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, close\r\n"
     "Upgrade: h2c\r\n\r\n"),
]
ROUTES = [
    ("GET", "/nothing", 404, None), ("GET", "/v1", 404, None), ("GET", "/healthz/", 404, None),
    ("GET", "/v1/../healthz", 404, None), ("GET", "//healthz", 404, None),
    ("GET", "/healthz%00", 404, None), ("GET", "/healthz%", 404, None),
    ("GET", "/health%zz", 404, None), ("GET", "/HEALTHZ", 404, None),
    ("PUT", "/healthz", 405, "GET, HEAD"), ("OPTIONS", "/healthz", 405, "GET, HEAD"),
    ("GET", "/v1/objects:sign", 405, "POST"), ("POST", "/v1/objects%3Asign", 401, None),
    ("POST", "/v1/objects/abc", 405, None), ("DELETE", "/v1/objects/", 404, None),
]


def refused(stepd, name, raw, status):
    answers, closed = stepd.exchange(raw.encode("latin-1"), timeout=5)
    check(len(answers) == 1 and answers[0].status == status and closed, name, answers, closed)
    check(all(a.body.startswith(b'{"detail":"') for a in answers), name + ": a sentence", answers)


def main():
    with Stepd() as stepd:
        # what follows a refused request is never read as another one
        smuggled = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        for name, raw, status in REFUSED:
            refused(stepd, name, raw + smuggled, status)
        for name, chunks in BAD_CHUNKS:
            refused(stepd, "chunks: " + name, CHUNKS + chunks + smuggled, 400)
        for name, chunks in GOOD_CHUNKS:
            raw = CHUNKS + chunks + smuggled
            answers, _ = stepd.exchange(raw.encode(), timeout=1)
            check([a.status for a in answers] == [200, 200], "chunks: " + name, answers)
        for name, raw in GOOD:
            answers, closed = stepd.exchange(raw.encode("latin-1"))
            check([a.status for a in answers] == [200] and closed, name, answers)
        for method, path, status, allow in ROUTES:
            raw = "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n" % (method, path)
            answer = stepd.exchange(raw.encode())[0][0]
            check(answer.status == status and (allow is None or answer.headers["allow"] == allow),
                  method + " " + path, answer)
    held("requests that two readers could read in two ways", "refused; what follows is never read as a request")
    finish()


main()
