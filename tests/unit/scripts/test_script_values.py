"""What can be known of a script without running it, and what must stay unknown."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest

from rlmem.scripts import UNKNOWN, Script, parse_script
from rlmem.scripts.reading import Project


def script(text: str, **files: str) -> Script:
    named = {name.replace("__", "/") + (".py" if "." not in name else ""): dedent(body) for name, body in files.items()}
    return parse_script(dedent(text), "train.py", project=Project(named))


def shown(read: Script) -> object:
    """The value of the argument of ``show(…)``."""
    (call,) = [call for call in read.calls if isinstance(call.func, ast.Name) and call.func.id == "show"]
    return read.value(call.args[0])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("show(1_000_000)", 1_000_000),
        ("show(int(1e6))", 1_000_000),
        ("show(2**10 * 3 + 1)", 3073),
        ("N = 5\nshow(N * 2)", 10),
        ("N, M = 5, 6\nshow(M)", 6),
        ("N = 5\ndef f():\n    show(N)", 5),
        ("def f(n=7):\n    show(n)", 7),
        ("def f(n=7):\n    show(n)\nf(9)", 9),
        ("def f(n):\n    show(n)\nf(n=int(3e3))", 3000),
        ("def size():\n    return 12\nshow(size())", 12),
        ("cfg = {'a': 1, 'b': {'c': 2}}\nshow(cfg['b']['c'])", 2),
        ("base = dict(a=1)\ncfg = {**base, 'b': 2}\nshow(cfg['a'])", 1),
        ("cfg = dict(a=4)\nshow(cfg.get('a', 9))", 4),
        ("cfg = dict(a=4)\nshow(cfg.get('z', 9))", 9),
        ("import os\nshow(int(os.environ.get('N', '64')))", 64),
        ("import os\nshow(int(os.getenv('N', 64)))", 64),
        ("from os import environ\nshow(environ.get('N', 3))", 3),
        ("x = 3 if True else 4\nshow(x)", 3),
        ("show(max(3, len([1, 2])))", 3),
        ("class Config:\n    size = 8\nshow(Config.size)", 8),
        ("class Config:\n    size: int = 8\ncfg = Config()\nshow(cfg.size)", 8),
        ("class Config:\n    def __init__(self):\n        self.size = 8\ncfg = Config()\nshow(cfg.size)", 8),
        ("class Config:\n    size: int = 8\ncfg = Config(size=9)\nshow(cfg.size)", 9),
        ("import tyro\nclass Args:\n    size: int = 8\nargs = tyro.cli(Args)\nshow(args.size)", 8),
        ("class A:\n    def __init__(self):\n        self.n = 4\n    def f(self):\n        show(self.n)", 4),
        (
            "class A:\n    def __init__(self, n=4):\n        self.n = n\n    def f(self):\n        show(self.n)\na = A(6)",
            6,
        ),
        ("args = Config()\nargs.n = 5\nshow(args.n)", 5),
        ("name = 'Pong'\nshow(f'{name}NoFrameskip-v4')", "PongNoFrameskip-v4"),
        ("x = 1\nx = 2\nshow(x)", 2),
        ("show((3, *[84, 84]))", (3, 84, 84)),
    ],
)
def test_a_value_is_known(text: str, value: object) -> None:
    assert shown(script(text)) == value


@pytest.mark.parametrize(
    "text",
    [
        "show(f())",
        "x = 1\nif c:\n    x = 2\nshow(x)",
        "x = 1\nfor i in y:\n    show(x)\n    x = 2",
        "x = 1\nx += 1\nshow(x)",
        "for x in range(3):\n    show(x)",
        "def f(n):\n    show(n)\nf(1)\nf(2)",
        "def f(n=3):\n    show(n)\nf(**k)",
        "cfg = {'a': 1}\ncfg['a'] = g()\nshow(cfg['a'])",
        "cfg = {**other}\nshow(cfg['a'])",
        "import os\nshow(os.environ['N'])",
        "show(10**10**10)",
        "show('x' * 10**9)",
        "show(1 / 0)",
        "x = x\nshow(x)",
        "def f():\n    return f()\nshow(f())",
        "def f(c):\n    if c:\n        return 1\n    return 2\nshow(f(c))",
        "class A:\n    def f(self):\n        self.n = 1\n    def g(self):\n        self.n = 2\n        show(self.n)",
        "x = 3 if c else 4\nshow(x)",
        "x = 1\ndef f():\n    global x\n    x = 2\nshow(x)",
    ],
)
def test_what_depends_on_the_run_stays_unknown(text: str) -> None:
    assert shown(script(text)) is UNKNOWN


PARSER = """
    import argparse
    def options():
        parser = argparse.ArgumentParser()
        parser.add_argument("--buffer-size", "-b", type=int, default=200_000)
        parser.add_argument("--steps", type=float, default="1e5")
        parser.add_argument("--cuda", action="store_true")
        parser.add_argument("--name", required=True)
        return parser.parse_args()
    """


@pytest.mark.parametrize(
    ("use", "value"),
    [
        ("args = options()\nshow(args.buffer_size)", 200_000),
        ("def main(args):\n    show(args.steps)\nmain(options())", 100_000.0),
        ("args = options()\nshow('cuda' if args.cuda else 'cpu')", "cpu"),
        ("args = options()\nshow(args.name)", UNKNOWN),
        ("args = options()\nargs.buffer_size = f()\nshow(args.buffer_size)", UNKNOWN),
        ("args = options()\nshow(args.other)", UNKNOWN),
    ],
)
def test_defaults_of_options_are_known(use: str, value: object) -> None:
    assert shown(script(dedent(PARSER) + use)) == value


def test_options_that_are_parsed_with_leftovers_are_known() -> None:
    text = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--n', default=3)\n"
    assert shown(script(f"{text}args, rest = p.parse_known_args()\nshow(args.n)")) == 3
    assert shown(script(f"{text}args = p.parse_known_args()[0]\nshow(args.n)")) == 3


def test_constants_come_from_other_files_of_the_project() -> None:
    assert shown(script("from config import SIZE\nshow(SIZE)", config="SIZE = 10 * 1000")) == 10_000
    assert shown(script("import config\nshow(config.SIZE)", config="SIZE = 7")) == 7
    assert (
        shown(
            script(
                "from pkg.config import SIZE\nshow(SIZE)", pkg__config="from .base import SIZE", pkg__base="SIZE = 1"
            )
        )
        == 1
    )
    assert shown(script("from config import SIZE\nshow(SIZE)", config="SIZE = (")) is UNKNOWN
    assert shown(script("from nowhere import SIZE\nshow(SIZE)")) is UNKNOWN


def test_files_that_import_each_other_end() -> None:
    assert shown(script("from a import X\nshow(X)", a="from b import X", b="from a import X")) is UNKNOWN


def test_settings_come_from_a_file_beside_the_script() -> None:
    files = {"config.json": '{"buffer": {"size": 5}}', "config.yaml": "size: 6\n", "bad.json": "{"}
    for text, value in (
        ("import json\ncfg = json.load(open('config.json'))\nshow(cfg['buffer']['size'])", 5),
        ("import yaml\nwith open('config.yaml') as f:\n    cfg = yaml.safe_load(f)\nshow(cfg['size'])", 6),
        ("import json\nshow(json.load(open('bad.json'))['size'])", UNKNOWN),
        ("import json\nshow(json.load(open('none.json'))['size'])", UNKNOWN),
    ):
        assert shown(parse_script(text, "train.py", project=Project(files))) == value


def test_names_are_told_through_aliases_and_modules() -> None:
    read = script("""
        import stable_baselines3 as sb3
        from stable_baselines3.sac import SAC as Soft
        try:
            import gymnasium as gym
        except ImportError:
            import gym
        Algo = Soft
        sb3.PPO("MlpPolicy", gym.make("CartPole-v1"))
        Algo("MlpPolicy", None)
        """)
    names = [name.dotted for call in read.calls if (name := read.called(call))]
    assert names == ["stable_baselines3.PPO", "gymnasium.make", "stable_baselines3.sac.SAC"]
    assert len(list(read.calls_of("SAC", roots=("stable_baselines3",)))) == 1


def test_an_object_is_told_through_rebinding_and_functions() -> None:
    read = script("""
        import gymnasium as gym
        def build():
            env = gym.make("CartPole-v1")
            env = Monitor(env)
            return env
        env = build()
        show(env)
        """)
    (call,) = [call for call in read.calls if isinstance(call.func, ast.Name) and call.func.id == "show"]
    assert str(read.made_by(call.args[0])) == "Name(dotted='Monitor')"


def test_bases_of_a_class_are_found_in_other_files() -> None:
    read = script(
        "from base import Base\nclass Mine(Base):\n    pass\n",
        base="import gymnasium as gym\nclass Base(gym.Env):\n    pass\n",
    )
    assert read.is_env(read.classes[0])
