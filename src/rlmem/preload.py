"""``import rlmem.preload``: an agent in this process, so that ``rlmem explain`` and ``rlmem watch`` can name its objects.

It is a thread that sleeps until somebody of the same user asks through a socket of theirs. Nothing is patched.
"""

from __future__ import annotations

from rlmem.agent import server

#: Whether there is an agent now; it needs ``/proc`` and a folder only this user may enter.
active: bool = server.start()
