"""A script that ends before anything was built."""

import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=10)
print(parser.parse_args().steps)
