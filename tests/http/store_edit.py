"""Reads and changes the records of a stepd that does not run, by LMDB's own library."""
import ctypes
import ctypes.util
import os

NEXT, NOT_FOUND = 8, -30798  # of lmdb.h


class Value(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]


class Table:
    """In a transaction, which is committed at the end of the with statement."""

    def __init__(self, state, table):
        self.lmdb = ctypes.CDLL(ctypes.util.find_library("lmdb") or "liblmdb.so.0")
        self.env, self.txn, self.dbi = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint()
        self.do("mdb_env_create", ctypes.byref(self.env))
        self.do("mdb_env_set_maxdbs", self.env, 32)
        self.do("mdb_env_set_mapsize", self.env, ctypes.c_size_t(1 << 30))
        self.do("mdb_env_open", self.env, os.path.join(state, "store").encode(), 0, 0o600)
        self.do("mdb_txn_begin", self.env, None, 0, ctypes.byref(self.txn))
        self.do("mdb_dbi_open", self.txn, table.encode(), 0, ctypes.byref(self.dbi))

    def do(self, name, *args):
        rc = getattr(self.lmdb, name)(*args)
        if rc not in (0, NOT_FOUND):
            raise SystemExit("%s: %d" % (name, rc))
        return rc == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.do("mdb_txn_commit", self.txn)
        self.lmdb.mdb_env_close(self.env)

    def records(self):
        cursor, key, data, found = ctypes.c_void_p(), Value(), Value(), {}
        self.do("mdb_cursor_open", self.txn, self.dbi, ctypes.byref(cursor))
        while self.do("mdb_cursor_get", cursor, ctypes.byref(key), ctypes.byref(data), NEXT):
            found[ctypes.string_at(key.data, key.size)] = ctypes.string_at(data.data, data.size)
        self.lmdb.mdb_cursor_close(cursor)
        return found

    def put(self, key, record):
        buffers = [ctypes.create_string_buffer(b, len(b)) for b in (key, record)]
        values = [Value(len(b), ctypes.cast(b, ctypes.c_void_p)) for b in buffers]
        self.do("mdb_put", self.txn, self.dbi, ctypes.byref(values[0]), ctypes.byref(values[1]), 0)


def read_table(state, table):
    with Table(state, table) as t:
        return t.records()


def write_table(state, table, records):
    with Table(state, table) as t:
        for key, record in records.items():
            t.put(key, record)
