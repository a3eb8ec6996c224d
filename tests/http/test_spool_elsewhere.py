"""A spool on another file system than the rest of the state: a session that began from an object of stepd's
own store is there again after stepd was killed, with every step."""
import time

from daemon import check, finish
from fault_table import NOT_TRIED, fault
from small_disk import kill_stepd, small_disk
from trainer import Trainer


@fault("stepd is killed, and its spool is on another disk than its objects", "sessions come back, with every step")
def killed():
    prefix = small_disk("size=64m", starts=2, folder="/spool")
    if prefix is None:
        return NOT_TRIED
    with Trainer(prefix=prefix) as t:
        s = t.opened()
        t.render(s)
        check(t.train(s)[0] == 200, "trained")
        urls = t.sign()
        check(t.save(s, urls["put_url"])[0] == 200, "saved")
        t.close(s)
        s = t.opened(resume_download_url=urls["get_url"])
        t.render(s)
        for step in (2, 3):
            status, _, headers = t.train(s)
            check((status, headers["stepd-step"]) == (200, str(step)), "trained", status, headers)
        kill_stepd(t)
        end = time.monotonic() + 30
        while (st := t.status(s))["state"] == "restoring" and time.monotonic() < end:
            time.sleep(0.01)
        check((st["state"], st["step"], st["replay_differences"]) == ("ready", 3, 0), "every step", st)
        status, _, headers = t.train(s)
        check((status, headers["stepd-step"]) == (200, "4"), "and it goes on", status, headers)
    return None


killed()
finish()
