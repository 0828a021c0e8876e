"""Optimizer steps in processes that the target started: a learner that is not the process that is planned."""

import importlib
import os


class Learner:
    """Writes down, in a child process, that it makes optimizer steps."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "learners")
        self.pid, self.updates = None, 0

    def watch_torch(self, _):
        """Be told of every optimizer step."""
        hooks = importlib.import_module("torch.optim.optimizer")
        register = getattr(hooks, "register_optimizer_step_post_hook", None)  # from torch 2.0 on
        if register is not None:
            register(lambda optimizer, args, kwargs: self.stepped())

    def stepped(self):
        """An optimizer step of this process; told now and then."""
        if self.pid != os.getpid():  # forked since
            self.pid, self.updates = os.getpid(), 0
        self.updates += 1
        if not self.updates & (self.updates - 1):
            os.makedirs(self.folder, exist_ok=True)
            with open(os.path.join(self.folder, str(self.pid)), "w") as file:
                file.write(str(self.updates))


def seen(folder):
    """Optimizer steps by process, at least so many."""
    folder = os.path.join(folder, "learners")
    found = {}
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        with open(os.path.join(folder, name)) as file:
            text = file.read()
        if text.isdigit():
            found[name] = int(text)
    return found
