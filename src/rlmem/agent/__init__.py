"""What runs inside the user's own interpreter: standard library and numpy only, put there by path.

Nothing here may import rlmem, torch or a framework by itself: the training environment need not have rlmem, and what
the script never imports must not be imported on its account. Plain Python 3.8, so that old environments work.
``sizing`` alone is a program of its own, and loads rlmem's buffers from beside it.
"""

#: The version of the protocol between a user's interpreter and ours: what ``protocol.py`` writes down. A key that goes or
#: changes its meaning gives it a new number, a key that is added does not. It stands here because what runs in a user's
#: interpreter needs the number alone, and ``typing`` is not imported there on its account.
PROTOCOL = 1
