"""Sizes and counts: text in, integers out, and back."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlmem.cli import run as cli
from rlmem.errors import UsageError
from rlmem.units import (
    ABSURD_BYTES,
    ABSURD_COUNT,
    GIB,
    answering_in,
    format_count,
    format_size,
    parse_count,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "nbytes"),
    [
        ("30GB", 30 * 10**9),
        ("30GiB", 30 * GIB),
        ("30g", 30 * 10**9),
        ("30Gi", 30 * GIB),
        (" 1.5 gib ", 3 * GIB // 2),
        ("1,024 B", 1024),
        ("1_000kB", 10**6),
        ("1e3MB", 10**9),
        (".5kB", 500),
        ("1.1kB", 1100),
        ("512", 512),
        (512, 512),
        (512.0, 512),
        ("1PiB", 1 << 50),
    ],
)
def test_a_size_reads_as_people_write_it(text: Any, nbytes: int) -> None:
    assert parse_size(text) == nbytes


def test_a_gigabyte_is_not_a_gibibyte() -> None:
    assert parse_size("1GB") == 1_000_000_000
    assert parse_size("1GiB") == 1_073_741_824


@pytest.mark.parametrize(
    "text",
    ["", " ", "GB", "-1GB", "0", "12 parsecs", "1e400", "1e-9", "9" * 5000, "nan", "inf", "1.2.3GB", "1 2GB", "0x10"],
)
def test_what_is_not_a_size_is_refused_in_one_short_line(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_size(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [True, False, None, [1], float("nan"), float("inf")])
def test_only_text_and_numbers_are_sizes(value: Any) -> None:
    with pytest.raises(UsageError):
        parse_size(value)


@pytest.mark.parametrize("text", ["1,5GB", "1,5", "1000,000", "1,00GB"])
def test_a_decimal_comma_is_refused_rather_than_read_as_ten_times_more(text: str) -> None:
    with pytest.raises(UsageError, match="is not a size"):
        parse_size(text)


@pytest.mark.parametrize("text", ["３０GB", "٣GB", "²GB", "Ⅳ"])
def test_digits_of_other_scripts_are_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_size(text)


def test_an_unknown_unit_names_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"unknown unit 'gg'; use B, kB, MB, GB"):
        parse_size("3GG")


def test_sizes_end_at_an_exbibyte() -> None:
    assert parse_size(ABSURD_BYTES) == ABSURD_BYTES
    with pytest.raises(UsageError, match="absurdly large"):
        parse_size(ABSURD_BYTES + 1)


def test_zero_is_a_size_only_where_it_is_allowed() -> None:
    assert parse_size("0", minimum=0) == 0
    with pytest.raises(UsageError, match="at least 1 B"):
        parse_size("0")


@pytest.mark.parametrize(
    ("text", "count"),
    [("400k", 400_000), ("1M", 10**6), ("2b", 2 * 10**9), ("20_000", 20_000), ("1e6", 10**6), ("1.001k", 1001)],
)
def test_a_count_reads_with_its_suffix(text: str, count: int) -> None:
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["1.5", "0.0001k", "k", "", "1e400", "-1e400", "4 GiB", "¼", "9" * 5000])
def test_what_is_not_a_whole_number_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_count(text)


def test_counts_end_where_they_become_absurd() -> None:
    assert parse_count(ABSURD_COUNT) == ABSURD_COUNT
    with pytest.raises(UsageError, match="absurdly large"):
        parse_count(ABSURD_COUNT + 1)


@given(st.integers(1, ABSURD_COUNT // 1000))
def test_thousands_and_units_mean_the_same_count(count: int) -> None:
    thousandth = f"{count // 1000}.{count % 1000:03d}"
    assert parse_count(f"{thousandth}k") == count == parse_count(f"{count:,}") == parse_count(f"{count:_}")


@given(st.integers(1, ABSURD_BYTES))
def test_a_plain_number_of_bytes_is_itself(nbytes: int) -> None:
    assert parse_size(nbytes) == parse_size(str(nbytes)) == parse_size(f"{nbytes:,} B") == nbytes


@given(st.integers(1, 1 << 50))
def test_a_printed_size_reads_back_within_its_three_figures(nbytes: int) -> None:
    assert parse_size(format_size(nbytes)) == pytest.approx(nbytes, rel=0.006)


@given(st.text(max_size=20))
def test_any_text_is_a_size_or_a_usage_error(text: str) -> None:
    for parse in (parse_size, parse_count):
        try:
            assert isinstance(parse(text), int)
        except UsageError as error:
            assert error.exit_code == 2


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (30_000_000_000, "27.9 GiB"),
        (-3 * GIB, "-3.00 GiB"),
        (GIB - 1, "1.00 GiB"),
        (2048 * GIB, "2.00 TiB"),
    ],
)
def test_a_size_prints_with_three_figures(nbytes: int, text: str) -> None:
    assert format_size(nbytes) == text


def test_a_column_can_pin_its_unit() -> None:
    assert format_size(GIB // 2, unit="GiB") == "0.50 GiB"
    assert format_count(400_000) == "400,000"


@pytest.mark.parametrize(
    ("typed", "shown"),
    [("64GB", "64.0 GB"), ("64 gb", "64.0 GB"), ("64G", "64.0 GB"), ("64GiB", "59.6 GiB"), (None, "59.6 GiB")],
)
def test_sizes_are_printed_in_the_unit_that_was_typed(typed: str | None, shown: str) -> None:
    with answering_in(typed):
        assert format_size(64 * 10**9) == shown
    assert format_size(64 * 10**9) == "59.6 GiB"


@pytest.mark.parametrize(
    "command",
    [
        "plan pidog-sac --ram {size}",
        "fit pidog-sac --ram {size}",
        "capacity pidog-sac --vary buffer_size=1k,2k --ram {size}",
        "capacity pidog-sac --vary buffer_size --machines {size},16GB",
    ],
)
def test_a_command_answers_in_the_unit_of_its_sizes(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    others = {"64GB": r"\d [KMG]iB", "64GiB": r"\d [kMG]B"}
    for size, other in others.items():
        cli(command.format(size=size).split())
        said = "\n".join(line for line in capsys.readouterr().out.splitlines() if "2³⁰" not in line)
        assert not re.search(other, said), said
    assert format_size(2**30) == "1.00 GiB"  # and afterwards as before
