"""A rollout of observations that are sliding windows over a stream: every sample once, windows cut out when asked for.

>>> from rlmem.buffers import WindowRollout  # doctest: +SKIP
>>> store = WindowRollout(4096, 100, history=300, sample=6, new=10, extra=4, fields={"actions": (4,), "rewards": ()})  # doctest: +SKIP
>>> observation = store.observe()                                      # what the policy sees now  # doctest: +SKIP
>>> store.append(samples, ended=ended, actions=actions, rewards=rewards)  # after a step of the environment  # doctest: +SKIP
>>> batch = store.gather(agents, steps)                                # what a store of whole windows would hold  # doctest: +SKIP

The window at step ``t`` holds the ``history`` samples before it, oldest first, flat, followed by the extra values. What
stands in it where an episode is younger than the window is named: ``on_reset="zeros"``, ``"edge"`` (the episode's first
sample again) or ``"carry"`` (the samples of the episode before).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import ceil, prod
from typing import Any, TypeAlias

import torch
from torch import Tensor

from rlmem.errors import UsageError

#: What a window holds before the first sample of an episode.
ON_RESET = ("zeros", "edge", "carry")
DTYPES = {"float32": torch.float32, "float16": torch.float16, "int16": torch.int16}
#: The most int16 holds; the one value below its negative stands for what is no number.
_INT16 = 32767
_NONE = -32768
#: What writing takes beside fields.
_ARGUMENTS = {"samples", "ended", "extra", "agents", "step", "self"}
#: Bytes of a carried history that are copied at once.
_COPY = 16 * 1024 * 1024
Agents: TypeAlias = "int | slice | Tensor"


class WindowRollout:
    """``steps`` steps of ``agents`` agents.

    ``new`` samples of ``sample`` values come with every step. ``fields`` are further values of a step, by name and shape.
    ``derived`` names values of a sample that are not stored because they follow from a field: ``{3: ("actions", 1)}`` says
    that value 3 of all samples of a step is value 1 of that step's actions. ``dtype`` is what samples are kept in;
    ``int16`` is fixed point in units of ``scale``. 16-bit samples are rounded once, on the way in: ``observe`` and ``gather``
    return the same numbers. Beyond its range ``int16`` keeps the end of the range, ``float16`` (65504) an infinity; what is
    no number stays none, in ``int16`` infinities too. bfloat16 is refused: its eight bits of mantissa keep 9.81 m/s² to 0.06.

    ``whole_episodes`` says that every rollout begins with a reset of all agents, so that nothing is carried over between
    rollouts. ``first`` samples come with a reset itself (the last of those appended with ``ended``). ``final`` keeps the
    samples of the last step, for the observation after it. ``extra_once`` keeps the extra values once a rollout; else each
    step has its own, and those of the step before where none are given.
    """

    def __init__(
        self,
        agents: int,
        steps: int,
        *,
        history: int,
        sample: int,
        new: int = 1,
        extra: int = 0,
        fields: Mapping[str, tuple[int, ...]] | None = None,
        derived: Mapping[int, tuple[str, int]] | None = None,
        dtype: str = "float32",
        scale: float = 1 / 256,
        on_reset: str = "zeros",
        first: int = 0,
        whole_episodes: bool = False,
        final: bool = True,
        extra_once: bool = False,
        device: torch.device | str = "cpu",
    ) -> None:
        for name, value, least in (
            ("agents", agents, 1),
            ("steps", steps, 1),
            ("history", history, 1),
            ("sample", sample, 1),
            ("new", new, 1),
            ("extra", extra, 0),
            ("first", first, 0),
        ):
            if not hasattr(value, "__index__"):
                raise UsageError(f"{name}: expected a whole number, got {value!r}")
            if value < least:
                raise UsageError(f"{name}: expected at least {least}, got {value}")
        self.agents, self.steps = agents, steps
        self.history, self.sample, self.new, self.extra, self.first = history, sample, new, extra, first
        self.dtype, self.scale = _checked(dtype), scale
        self.on_reset, self.whole_episodes = on_reset, whole_episodes
        self.derived = dict(derived or {})
        self.stored = tuple(c for c in range(sample) if c not in self.derived)
        self._check(dict(fields or {}))
        #: Whole steps that are kept from before the rollout.
        self.before = 0 if whole_episodes and on_reset != "carry" else ceil(history / new)
        if self.before and not final:
            raise UsageError(
                "final: without the last step's samples the next rollout has no history; pass final=True, or "
                "whole_episodes=True with on_reset 'zeros' or 'edge'"
            )
        self._lead = self.before * new if self.before else first
        self.final = final
        #: Steps whose observation is kept, with the one after the last.
        self.observed = steps + final
        places = self._lead + (self.observed - 1) * new
        self.samples = torch.zeros(agents, places, len(self.stored), dtype=self.dtype, device=device)
        self.extras = torch.zeros((agents, extra) if extra_once else (agents, steps + 1, extra), device=device)
        self._sources = {name for name, _ in self.derived.values()}
        self.fields: dict[str, Tensor] = {
            name: torch.zeros(agents, steps + (self.before if name in self._sources else 0), *shape, device=device)
            for name, shape in (fields or {}).items()
        }
        self.step = 0
        #: Samples of every agent's episode at the start of the rollout, while no agent has ended by itself …
        self._age = first
        #: … and from then on by agent and step.
        self._ages: Tensor | None = None

    def _check(self, fields: dict[str, tuple[int, ...]]) -> None:
        if not self.scale > 0:
            raise UsageError(f"scale: expected more than 0, got {self.scale}")
        for name in _ARGUMENTS & fields.keys():
            raise UsageError(f"fields: {name!r} is an argument of append() or put(); choose another name")
        if self.on_reset not in ON_RESET:
            raise UsageError(f"on_reset: {self.on_reset!r} is not one of {', '.join(ON_RESET)}")
        if self.on_reset == "edge" and not self.first:
            raise UsageError(
                "on_reset: 'edge' repeats the first sample of an episode; pass first=1 and give it with a reset"
            )
        if self.first > self.new or self.first > self.history:
            raise UsageError(f"first: at most new ({self.new}) and history ({self.history}) samples, got {self.first}")
        if self.derived and self.first:
            raise UsageError("first: the samples of a reset follow from no field; derive nothing, or pass first=0")
        for value, (name, index) in self.derived.items():
            if not 0 <= value < self.sample:
                raise UsageError(f"derived: a sample has values 0 to {self.sample - 1}, not {value}")
            if name not in fields or not 0 <= index < prod(fields[name]):
                raise UsageError(
                    f"derived: no value {index} of a field {name!r}; fields are {', '.join(fields) or 'none'}"
                )

    # ------------------------------------------------------------ size
    @property
    def nbytes(self) -> int:
        """Bytes of everything kept."""
        kept = [self.samples, self.extras, *self.fields.values()]
        return sum(t.numel() * t.element_size() for t in (*kept, *(() if self._ages is None else (self._ages,))))

    @property
    def bytes_per_agent(self) -> float:
        """The same by agent."""
        return self.nbytes / self.agents

    @property
    def materialised_nbytes(self) -> int:
        """What the same rollout takes when every step's window is stored whole, in 32 bits."""
        others = sum(t[:, : self.steps].numel() for t in self.fields.values())
        return 4 * (self.agents * self.steps * (self.history * self.sample + self.extra) + others)

    @property
    def width(self) -> int:
        """Values of an observation."""
        return self.history * self.sample + self.extra

    # ------------------------------------------------------------ writing
    def begin(self) -> None:
        """Start the next rollout: the end of the last one becomes the history before it."""
        if self.before and self.step:
            for rows in self._pieces():
                self._carry(rows)
        if not self.before:
            self.samples[:, : self.first] = 0
            self._age, self._ages = self.first, None
        elif self._ages is not None:
            # What is older than the window is as good as that: no number grows with the run.
            self._ages[:, 0] = self._ages[:, self.step].clamp(max=self.history)
        else:
            self._age = min(self._age + self.step * self.new, self.history)
        if self.extras.ndim > 2:
            self.extras[:, 0] = self.extras[:, self.step]
        self.step = 0

    def _pieces(self) -> Iterator[slice]:
        row = max(self.samples[0].numel() * self.samples.element_size(), 1)
        size = max(_COPY // row, 1)
        return (slice(low, min(low + size, self.agents)) for low in range(0, self.agents, size))

    def _carry(self, rows: slice) -> None:
        kept, done = self._lead, self.step * self.new
        self.samples[rows, :kept] = self.samples[rows, done : done + kept].clone()
        for name in self._sources:
            field = self.fields[name]
            field[rows, : self.before] = field[rows, self.step : self.step + self.before].clone()

    def reset(self, samples: Tensor | None = None, *, extra: Tensor | None = None) -> None:
        """All agents begin an episode; ``samples`` are the ``first`` ones, ``extra`` the values beside the first window."""
        self._need_samples(samples, self.first)
        self._need_extra(extra)
        if samples is not None and self.first and self.step < self.observed:
            low = self._lead + self.step * self.new - self.first
            self.samples[:, low : low + self.first] = self._encoded(samples)
        if not self.step:
            self._age, self._ages = self.first, None
        elif self.on_reset != "carry":
            self._make_ages()[:, self.step] = self.first
        if extra is not None:
            self.put_extra(extra)

    def append(
        self, samples: Tensor, *, ended: Tensor | None = None, extra: Tensor | None = None, **fields: Tensor
    ) -> None:
        """What a step brought: its samples, whose episodes it ended, the extra values beside the next window, fields."""
        if self.step >= self.steps:
            raise UsageError(f"append: the rollout has {self.steps} steps and is full; call begin()")
        now = self.step
        self._need_samples(samples, self.new)
        self._need_extra(extra)
        if ended is not None and (ended.dtype is not torch.bool or tuple(ended.shape) != (self.agents,)):
            raise UsageError(f"ended: expected a bool of every agent, got {ended.dtype} {list(ended.shape)}")
        for name in sorted(self._sources - fields.keys()):
            raise UsageError(f"append: values of a sample follow from {name!r}; pass it")
        self.put(slice(None), now, samples, **fields)
        self.step = now + 1
        if ended is not None and self.on_reset != "carry" and bool(ended.any()):
            self._make_ages()
        if self._ages is not None:
            older = self._ages[:, now] + self.new
            self._ages[:, now + 1] = older if ended is None else torch.where(ended, self.first, older)
        if extra is not None:
            self.put_extra(extra)
        elif self.extras.ndim > 2:
            self.extras[:, now + 1] = self.extras[:, now]

    def put(self, agents: slice, step: int, samples: Tensor | None = None, **fields: Tensor) -> None:
        """Write one step of some agents; ``samples`` with all values, or with the stored ones alone."""
        writes = []
        for name, value in fields.items():
            if name not in self.fields:
                raise UsageError(f"fields: no field {name!r}; fields are {', '.join(self.fields) or 'none'}")
            writes.append((name, self.field(name)[agents, step], value))
        if samples is not None:
            samples = self._encoded(samples)
            if step < self.observed - 1:
                writes.append(("samples", self.kept(agents, step), samples))
        for name, place, value in writes:
            _expect(name, value, place.shape)
        for _, place, value in writes:
            place.copy_(value)

    def put_extra(self, extra: Tensor) -> None:
        """The extra values beside the window of the present step (or of the whole rollout)."""
        self._need_extra(extra)
        if self.extras.ndim > 2:
            self.extras[:, self.step] = extra
        else:
            self.extras.copy_(extra)

    def kept(self, agents: slice, step: int) -> Tensor:
        """Where the stored values of one step's samples are: ``[n, new, stored]``, in the stored dtype."""
        low = self._lead + step * self.new
        return self.samples[agents, low : low + self.new]

    def field(self, name: str) -> Tensor:
        """The steps of this rollout of one field, ``[agents, steps, …]``."""
        return self.fields[name][:, self.before :] if name in self._sources else self.fields[name]

    def _need_samples(self, samples: Tensor | None, count: int) -> None:
        wanted = (self.agents, count)
        if samples is None and count and count == self.first:
            raise UsageError(
                f"reset: an episode begins with {count} samples; pass them as [{self.agents}, {count}, {self.sample}]"
            )
        if samples is not None and (samples.ndim != 3 or tuple(samples.shape[:2]) != wanted):
            raise UsageError(f"samples: expected [{self.agents}, {count}, {self.sample}], got {list(samples.shape)}")

    def _need_extra(self, extra: Tensor | None) -> None:
        if extra is not None:
            _expect("extra", extra, (self.agents, self.extra))

    def _make_ages(self) -> Tensor:
        if self._ages is None:
            device = self.samples.device
            steps = torch.arange(self.steps + 1, device=device, dtype=torch.int32)
            self._ages = (self._age + steps * self.new).repeat(self.agents, 1)
        return self._ages

    def _encoded(self, samples: Tensor) -> Tensor:
        if self.derived and samples.shape[-1] == self.sample:
            samples = samples[..., self.stored]
        if samples.shape[-1] != len(self.stored):
            raise UsageError(f"samples: expected {self.sample} values a sample, got {samples.shape[-1]}")
        return self.quantised(samples)

    def quantised(self, values: Tensor) -> Tensor:
        """Values as they are stored."""
        return quantise(values, self.dtype, self.scale)

    def decoded(self, values: Tensor) -> Tensor:
        """Stored values as they are read."""
        return decode(values, self.scale)

    # ------------------------------------------------------------ reading
    def observe(self, agents: slice = slice(None)) -> Tensor:
        """What the policy sees now, ``[n, width]``."""
        return self.gather(agents, slice(self.step, self.step + 1))[:, 0]

    def gather(self, agents: Agents, steps: Agents) -> Tensor:
        """Observations: of every agent with every step for two slices, ``[n, k, width]``; else pair by pair, ``[n, width]``."""
        if isinstance(agents, slice) and isinstance(steps, slice):
            return self._block(agents, steps)
        rows = self._indices(range(self.agents)[agents] if isinstance(agents, slice) else agents, self.agents)
        whens = self._indices(self._steps(steps) if isinstance(steps, slice) else steps, self.steps + 1)
        if len(rows) != len(whens) and 1 not in (len(rows), len(whens)):
            raise UsageError(f"gather: {len(rows)} agents and {len(whens)} steps are no pairs")
        rows, whens = torch.broadcast_tensors(rows, whens)
        self._check_last(int(whens.max()) if whens.numel() else 0)
        at = self._lead + whens * self.new
        places = at[:, None] + torch.arange(-self.history, 0, device=at.device)
        age = self._ages_at(rows, whens)
        if age is not None:
            oldest = (at - age)[:, None]
            if self.on_reset == "edge":
                places = torch.maximum(places, oldest)
        inside = places >= 0
        out = self._values(rows[:, None], places.clamp_(min=0))
        if age is not None and self.on_reset == "zeros":
            inside &= places >= oldest
        out.masked_fill_(~inside[..., None], 0)
        beside = self.extras[rows, whens] if self.extras.ndim > 2 else self.extras[rows]
        return torch.cat([out.flatten(1), beside], 1)

    def _indices(self, index: int | range | Tensor, length: int) -> Tensor:
        device = self.samples.device
        if isinstance(index, range):
            return torch.arange(len(index), device=device) * index.step + index.start
        index = torch.as_tensor(index, device=device).reshape(-1)
        if not index.numel():
            return index.long()
        if index.dtype.is_floating_point or index.dtype is torch.bool:
            raise UsageError(f"gather: expected whole numbers, got {index.dtype}")
        low, high = (int(end) for end in index.aminmax())
        if low < 0 or high >= length:
            raise UsageError(f"gather: {low} to {high} is outside 0 to {length - 1}")
        return index.long()

    def _steps(self, steps: slice) -> range:
        """The steps of a slice, as Python reads it; one that ends at a step that is not kept is no slice of these."""
        last = steps.start if (steps.step or 1) < 0 else steps.stop and steps.stop - 1
        if not self.final and last is not None:
            self._check_last(last)
        return range(self.observed)[steps]

    def _check_last(self, step: int) -> None:
        if step >= self.observed:
            raise UsageError(
                f"gather: the last observation kept is that of step {self.observed - 1}; "
                "pass final=True for the one after it"
            )

    def _ages_at(self, rows: Tensor, whens: Tensor) -> Tensor | None:
        """Samples of the episode before each step; ``None`` where the window does not ask."""
        if self.on_reset == "carry":
            return None
        if self._ages is not None:
            return self._ages[rows, whens].long()
        return self._age + whens * self.new

    def _values(self, rows: Tensor, places: Tensor) -> Tensor:
        """All values of the samples at these places of the stream, ``[…, sample]``."""
        if not self.samples.shape[1]:  # one step, and none before or after it
            return torch.zeros(*torch.broadcast_shapes(rows.shape, places.shape), self.sample, device=places.device)
        kept = self.decoded(self.samples[rows, places])
        if not self.derived:
            return kept
        out = kept.new_empty(*kept.shape[:-1], self.sample)
        out[..., self.stored] = kept
        when = torch.div(places - self._lead, self.new, rounding_mode="floor") + self.before
        for value, (name, index) in self.derived.items():
            field = self.fields[name].flatten(2)[..., index] if self.fields[name].ndim > 2 else self.fields[name]
            out[..., value] = self.decoded(self.quantised(field[rows, when.clamp(min=0)]))
        return out

    # ------------------------------------------------------------ blocks of agents and steps, without an index
    def stream(self, agents: slice, steps: slice = slice(None)) -> Tensor:
        """The samples under the windows of consecutive steps, ``[n, history + (k − 1)·new, sample]``, padded in front.

        Window ``j`` of the block is ``[:, j·new : j·new + history]``. Only where no agent began an episode inside them.
        """
        asked = self._steps(steps)
        if not asked or asked.step != 1:
            raise UsageError(f"stream: {'expected consecutive steps' if asked else 'no step'} in {steps}; use gather()")
        if self._ages is not None:
            raise UsageError(
                "stream: an agent's episode ended within the rollout; use gather(), which looks at every window"
            )
        low, high = asked.start, asked.stop
        start, end = self._lead + low * self.new - self.history, self._lead + (high - 1) * self.new
        part = self.samples[agents, max(start, 0) : end]
        out = torch.zeros(part.shape[0], end - start, self.sample, device=part.device)
        inner = out[:, max(-start, 0) :]
        if not self.derived:
            inner.copy_(self.decoded(part))
        else:
            for source, value in enumerate(self.stored):
                inner[..., value] = self.decoded(part[..., source])
            for value, (name, index) in self.derived.items():
                self._derive(inner[..., value], name, index, agents, max(start, 0))
        if self.on_reset != "carry":
            self._pad(out, self._lead - start - self._age)
        return out

    def _derive(self, out: Tensor, name: str, index: int, agents: slice, start: int) -> None:
        """One derived value of all samples from stream place ``start`` on."""
        first, offset = divmod(start - self._lead, self.new)
        count = ceil((offset + out.shape[1]) / self.new)
        field = self.fields[name].flatten(2)[..., index] if self.fields[name].ndim > 2 else self.fields[name]
        steps = self.decoded(self.quantised(field[agents, self.before + first : self.before + first + count]))
        out.copy_(steps.repeat_interleave(self.new, 1)[:, offset : offset + out.shape[1]])

    def _pad(self, out: Tensor, missing: int) -> None:
        if missing <= 0:
            return
        out[:, :missing] = out[:, missing : missing + 1] if self.on_reset == "edge" and missing < out.shape[1] else 0

    def _block(self, agents: slice, steps: slice) -> Tensor:
        rows, asked = range(self.agents)[agents], self._steps(steps)
        if self._ages is not None or not asked or asked.step != 1 or rows.step != 1:
            picked, whens = self._indices(rows, self.agents), self._indices(asked, self.steps + 1)
            flat = self.gather(picked.repeat_interleave(len(whens)), whens.repeat(len(picked)))
            return flat.view(len(picked), len(whens), self.width)
        low, high = asked.start, asked.stop
        stream = self.stream(agents, slice(low, high))
        windows = stream.unfold(1, self.history, self.new).transpose(2, 3).flatten(2)
        beside = (
            self.extras[agents, low:high]
            if self.extras.ndim > 2
            else self.extras[agents, None].expand(-1, high - low, -1)
        )
        return torch.cat([windows, beside], 2)

    # ------------------------------------------------------------ saving
    def state_dict(self) -> dict[str, Any]:
        """What the next rollout needs of this one; call it after a whole rollout or before the first step of one."""
        done = self.step * self.new
        return {
            "samples": self.samples[:, done : done + self._lead].clone() if self.before else None,
            "fields": {
                n: self.fields[n][:, self.step : self.step + self.before].clone() for n in sorted(self._sources)
            },
            "ages": None if self._ages is None or not self.before else self._ages[:, self.step].clone(),
            "age": self._age + self.step * self.new if self.before else self.first,
            "extra": self.extras[:, self.step].clone() if self.extras.ndim > 2 else self.extras.clone(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a saved state: the next rollout begins."""
        places = {"extra": (self.extras[:, 0] if self.extras.ndim > 2 else self.extras, state["extra"])}
        if self.before:
            places["samples"] = (self.samples[:, : self._lead], state["samples"])
            for name in self._sources:
                places[name] = (self.fields[name][:, : self.before], state["fields"][name])
        for name, (place, value) in places.items():
            _expect(name, value, place.shape)
        for place, value in places.values():
            place.copy_(value)
        if not self.before:
            self.samples[:, : self.first] = 0
        self.step = 0
        self._age, self._ages = min(int(state["age"]), self.history), None
        if state["ages"] is not None:
            self._make_ages()[:, 0] = state["ages"].clamp(max=self.history)


def quantise(values: Tensor, dtype: torch.dtype, scale: float) -> Tensor:
    """Values as a store of this dtype keeps them."""
    if dtype is not torch.int16:
        return values.to(dtype)
    whole = (values / scale).round_().clamp_(-_INT16, _INT16)
    return torch.where(values.isfinite(), whole, _NONE).to(dtype)


def decode(values: Tensor, scale: float) -> Tensor:
    """What is read of them."""
    if values.dtype is not torch.int16:
        return values.float()
    return (values.float() * scale).masked_fill_(values == _NONE, torch.nan)


def _expect(name: str, value: Tensor, shape: tuple[int, ...]) -> None:
    """Refuse what would broadcast without a word."""
    if tuple(value.shape) != tuple(shape):
        raise UsageError(f"{name}: expected {list(shape)}, got {list(value.shape)}")


def _checked(dtype: str) -> torch.dtype:
    if dtype not in DTYPES:
        why = " (its eight bits of mantissa keep 9.81 to 0.06)" if dtype == "bfloat16" else ""
        raise UsageError(f"dtype: {dtype!r} is not one of {', '.join(DTYPES)}{why}")
    return DTYPES[dtype]
