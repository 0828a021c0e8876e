"""What runs inside the user's own interpreter: standard library and numpy only, put there by path.

Nothing here may import rlmem, torch or a framework by itself: the training environment need not have rlmem, and what
the script never imports must not be imported on its account. Plain Python 3.8, so that old environments work.
``sizing`` alone is a program of its own, and loads rlmem's buffers from beside it.
"""
