"""Where uploads and downloads may go, by what names turn out to be at the moment of connecting: in a network
where every address is this machine's, so that whoever is let through is seen. And what the environment cannot
change about certificates."""
import os
import shutil
import socket
import ssl
import tempfile
import threading

import own_network

own_network.enter()

from daemon import check, finish  # noqa: E402
from fault_table import fault  # noqa: E402
from faulty_store import Store, certificate  # noqa: E402
from trainer import Trainer  # noqa: E402

PUBLIC4, PUBLIC6 = "93.184.216.34", "2606:4700::1111"
PRIVATE4 = ["10.0.0.1", "169.254.169.254", "192.168.1.1", "100.64.0.1", "198.18.0.1"]
PRIVATE6 = ["fd00::1", "2001:db8::1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::1", "2002:a00:1::1"]
UPLOAD = {"detail": "the trainer artifact upload failed"}

folder = tempfile.mkdtemp(prefix="stepd-test-")
own_network.up()
has6 = True
for number, address in enumerate([PUBLIC4, *PRIVATE4], 1):
    own_network.add_address(number, address)
try:
    for address in (PUBLIC6, *PRIVATE6):
        own_network.add_address(0, address)
except OSError as e:
    print("no IPv6 here: %s" % e)
    has6 = False
names = own_network.Names()
cert, key = certificate(folder, "wild", "*.stores.example")
store = Store(cert, key)


class EveryDoor:
    """The store, on every address of both kinds; remembers where clients came in."""

    def __init__(self):
        self.came = []
        self.sock = socket.create_server(("::" if has6 else "0.0.0.0", 0), dualstack_ipv6=has6,
                                         family=socket.AF_INET6 if has6 else socket.AF_INET)
        self.port = self.sock.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            sock, _ = self.sock.accept()
            self.came.append(sock.getsockname()[0].removeprefix("::ffff:"))
            threading.Thread(target=store.serve, args=(sock,), daemon=True).start()


door = EveryDoor()
settings = {"STEPD_CA_FILE": cert, "STEPD_CONNECT_TIMEOUT": "5", "STEPD_TRANSFER_TIMEOUT": "20"}
taken = 0


def save(t, session, answers, host=None):
    """Uploads to a new name with those answers. Status, and the addresses that were connected to."""
    global taken
    taken += 1
    name = host or "n%d.stores.example" % taken
    if host is None:
        names.answers[name] = answers
    door.came.clear()
    status, body, _ = t.save(session, "https://%s:%d/ok/x%d" % (name, door.port, taken))
    check(status == 200 or body == UPLOAD or status == 422, "an answer of the contract", status, body)
    return status, list(door.came)


@fault("names and forms of private addresses in upload URLs, IPv4, IPv6, mapped, NAT64, 6to4",
       "none is connected to")
def connecting():
    with Trainer(**settings) as t:
        s = t.opened()
        check(save(t, s, [[PUBLIC4]]) == (200, [PUBLIC4]), "a public address")
        for address in PRIVATE4 + ["127.0.0.1", "0.0.0.0"]:
            check(save(t, s, [[address]]) == (502, []), "a name for " + address)
        if has6:
            check(save(t, s, [[PUBLIC6]]) == (200, [PUBLIC6]), "a public address of IPv6")
            for address in PRIVATE6 + ["::1", "::", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::127.0.0.1"]:
                check(save(t, s, [[address]]) == (502, []), "a name for " + address)
            for host in ("[fd00::1]", "[::ffff:10.0.0.1]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]"):
                check(save(t, s, None, host)[0] in (502, 422) and door.came == [], "written as " + host)
        for host in ("169.254.169.254", "2852039166", "0xa9fea9fe", "025177524776", "0xa9.254.0251.254", "169.16689662",
                     "10.1", "169.254.169.254.", "⑩.0.0.1"):
            check(save(t, s, None, host)[0] in (502, 422) and door.came == [], "written as " + host)
        check("the address is not allowed" in t.logged(), "the log says why")
        check(all(a not in t.logged() for a in PRIVATE4), "and not where to")


@fault("a name that is public, then private",
       "the address that was judged is the one connected to")
def rebinding():
    """The address that was judged is the one that is connected to, whatever the name says next."""
    with Trainer(**settings) as t:
        s = t.opened()
        names.asked.clear()
        check(save(t, s, [[PUBLIC4], ["127.0.0.1"]]) == (200, [PUBLIC4]), "public, then private")
        name = "n%d.stores.example" % taken
        check(names.asked.count((name, 1)) == 1, "it is asked for once", names.asked)
        check(save(t, s, [["127.0.0.1"], [PUBLIC4]]) == (502, []), "private, then public")
        check(save(t, s, [["127.0.0.1", PUBLIC4]])[1] in ([PUBLIC4], []), "both at once: never the private one")
        check(save(t, s, [[PUBLIC4, "10.0.0.1"]])[1] in ([PUBLIC4], []), "in either order")
        if has6:
            check(save(t, s, [["::1", PUBLIC4]])[1] in ([PUBLIC4], []), "across families")
    # Later, and with nothing remembered: the same name is somewhere else.
    names.answers["later.stores.example"] = [["10.0.0.1"]]
    with Trainer(**settings) as t:
        s = t.opened()
        check(save(t, s, None, "later.stores.example") == (502, []), "private from then on")
    with Trainer(**dict(settings, STEPD_EGRESS_ALLOW="10.0.0.0/8")) as t:
        s = t.opened()
        check(save(t, s, None, "later.stores.example") == (200, ["10.0.0.1"]), "unless it is allowed")
        check(save(t, s, [["192.168.1.1"]]) == (502, []), "and nothing else")
        names.answers["inside.stores.example"] = [["192.168.1.1"]]
    with Trainer(**dict(settings, STEPD_EGRESS_ALLOW="inside.stores.example")) as t:
        s = t.opened()
        check(save(t, s, None, "inside.stores.example") == (200, ["192.168.1.1"]), "by its name")
        check(save(t, s, [["192.168.1.1"]]) == (502, []), "by no other name")


@fault("an environment that trusts other certificates or wants keys written",
       "nothing changes")
def environment():
    """Nothing that libraries read from it makes a certificate good, or writes keys to a file."""
    other = certificate(folder, "other", "*.stores.example")
    stranger = Store(*other, address="0.0.0.0")
    run, conf = tempfile.mkdtemp(prefix="stepd-test-"), os.path.join(folder, "openssl.cnf")
    keys = os.path.join(run, "state", "keys")  # where stepd may write
    with open(conf, "w") as f:
        f.write("openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = any\n"
                "[any]\nMinProtocol = TLSv1\nCipherString = ALL:@SECLEVEL=0\n")
    os.mkdir(os.path.join(folder, "certs"))
    shutil.copy(other[0], os.path.join(folder, "certs", "other.pem"))
    surprises = {"SSL_CERT_FILE": other[0], "SSL_CERT_DIR": os.path.join(folder, "certs"), "CURL_CA_BUNDLE": other[0],
                 "SSLKEYLOGFILE": keys, "OPENSSL_CONF": conf, "REQUESTS_CA_BUNDLE": other[0],
                 "GIT_SSL_NO_VERIFY": "1", "NODE_TLS_REJECT_UNAUTHORIZED": "0", "CURL_SSL_BACKEND": "none",
                 "HOSTALIASES": os.path.join(folder, "aliases")}
    with open(surprises["HOSTALIASES"], "w") as f:
        f.write("public localhost\n")
    names.answers["stranger.stores.example"] = [[PUBLIC4]]
    with Trainer(folder=run, **settings, **surprises) as t:
        s = t.opened()
        status, body, _ = t.save(s, "https://stranger.stores.example:%d/ok/x" % stranger.port)
        check((status, body, stranger.puts) == (502, UPLOAD, []), "a certificate of nobody's", status, body)
        check(save(t, s, [[PUBLIC4]])[0] == 200, "one of STEPD_CA_FILE's")
        try:
            old = Store(cert, key, ssl.TLSVersion.TLSv1_1, address="0.0.0.0")
        except (ssl.SSLError, ValueError):
            old = None
        if old is not None:
            names.answers["old.stores.example"] = [[PUBLIC4]]
            check(t.save(s, "https://old.stores.example:%d/ok/x" % old.port)[0] == 502 and not old.puts, "TLS 1.1")
        check(not os.path.exists(keys), "no keys in a file")


try:
    for test in (connecting, rebinding, environment):
        test()
finally:
    shutil.rmtree(folder)
finish()
