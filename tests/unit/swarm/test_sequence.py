"""The encoder over a stream, and the decoder in blocks, are the encoder and the decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the 'truth' extra is not installed; 'make test' installs it")

from rlmem.swarm.decode import PackedDecoder  # noqa: E402
from rlmem.swarm.incremental import GrowingStream  # noqa: E402
from rlmem.swarm.network import PARAMETERS, Decoder, Encoder, Networks, log_prob, split  # noqa: E402
from rlmem.swarm.sequence import Weights, encode_stream  # noqa: E402

pytestmark = pytest.mark.truth

STEPS = (1, 2, 7, 31)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        yield
    torch.set_num_threads(before)


def windows(stream: Any, steps: int) -> Any:
    """Every window by itself, ``[n, steps, 300, 6]``."""
    return torch.stack([stream[:, 10 * step : 10 * step + 300] for step in range(steps)], 1)


def one_by_one(encoder: Any, stream: Any, steps: int) -> Any:
    return encoder(windows(stream, steps).flatten(0, 1)).unflatten(0, (len(stream), steps))


def gradients(module: Any, out: Any, grad: Any) -> dict[str, Any]:
    module.zero_grad()
    out.backward(grad)
    return {name: parameter.grad.clone() for name, parameter in module.named_parameters()}


def stream_of(agents: int, steps: int, dtype: Any = torch.float64, zeros: int = 0) -> Any:
    """Accelerations and rates of a flight, with nothing before it if so asked."""
    stream = torch.randn(agents, 300 + 10 * (steps - 1), 6, dtype=dtype) * 3
    stream[..., 2] += 9.81
    stream[:, :zeros] = 0
    return stream


def strong_encoder(dtype: Any = torch.float64) -> Any:
    """One whose codes are neither near zero nor all at ±1, and whose biases count."""
    encoder = Encoder().to(dtype)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        encoder.code.weight.mul_(0.1)
    return encoder


@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("zeros", [0, 300, 293])
def test_codes_and_gradients_are_those_of_every_window_by_itself(agents: int, steps: int, zeros: int) -> None:
    encoder, stream = strong_encoder(), stream_of(agents, steps, zeros=zeros)
    expected = one_by_one(encoder, stream, steps)
    found = encode_stream(encoder, stream, steps)
    assert found.shape == (agents, steps, 20)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    grad = torch.randn_like(expected)
    wanted, got = gradients(encoder, expected, grad), gradients(encoder, found, grad)
    assert len(wanted) == 8
    for name, value in wanted.items():
        torch.testing.assert_close(got[name], value, rtol=1e-12, atol=1e-12 * float(value.abs().max()), msg=name)


def test_the_codes_tested_are_no_trifles() -> None:
    codes = one_by_one(strong_encoder(), stream_of(3, 7), 7).detach()
    assert 0.1 < float(codes.abs().mean()) < 0.9
    assert float((codes[:, 1:] - codes[:, :-1]).abs().max()) > 0.01


def test_windows_do_not_see_what_lies_outside_them() -> None:
    encoder, stream = strong_encoder(), stream_of(1, 31)
    stream[:, :150], stream[:, 450:] = 1e6, -1e6
    found = encode_stream(encoder, stream, 31)[:, 15]
    torch.testing.assert_close(found, encoder(stream[:, 150:450]), rtol=0, atol=1e-9)


@pytest.mark.parametrize("agents", [1, 3])
@pytest.mark.parametrize("zeros", [0, 300])
def test_a_growing_stream_gives_every_windows_code_in_its_time(agents: int, zeros: int) -> None:
    steps = 31
    encoder = strong_encoder(torch.float32)
    stream = stream_of(agents, steps, torch.float32, zeros)
    with torch.no_grad():
        expected = one_by_one(encoder.double(), stream.double(), steps)
        encoder.float()
        growing = GrowingStream(agents + 2, steps, Weights(encoder, torch.float32), CPU)
        for turn in range(2):  # the second time over what the first has left
            growing.samples[agents:] = torch.randn_like(growing.samples[agents:]) + turn
            growing.samples[:agents, :300] = stream[:, :300]
            growing.start()
            for step in range(steps):
                assert torch.equal(growing.window(step)[:agents], windows(stream, steps)[:, step])
                found = growing.codes(step)[:agents].double()
                torch.testing.assert_close(found, expected[:, step], rtol=0, atol=3e-6)
                if step < steps - 1:
                    growing.new(step)[:agents] = stream[:, 300 + 10 * step : 310 + 10 * step]


def test_a_growing_stream_is_the_stream_to_1e_12() -> None:
    encoder, stream = strong_encoder(), stream_of(3, 13)
    with torch.no_grad():
        growing = GrowingStream(3, 13, Weights(encoder, torch.float64), CPU)
        growing.samples = growing.samples.double()
        growing.samples[:, : stream.shape[1]] = stream
        growing.start()
        found = torch.stack([growing.codes(step) for step in range(13)], 1)
        torch.testing.assert_close(found, one_by_one(encoder, stream, 13), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_refreshed_weights_are_new_ones_in_the_same_tensors(dtype: Any) -> None:
    old, new = Encoder(), Encoder()
    weights, expected = Weights(old, dtype), Weights(new, dtype)
    places = {name: t.data_ptr() for name, t in vars(weights).items() if isinstance(t, torch.Tensor)}
    assert len(places) > 15
    # Some are the parameters themselves, seen in another shape: they follow by themselves, and must not be damaged.
    old.load_state_dict(new.state_dict())
    weights.refresh(old)
    for name, place in places.items():
        assert getattr(weights, name).data_ptr() == place
        assert torch.equal(getattr(weights, name), getattr(expected, name)), name
    for name, parameter in old.named_parameters():
        assert torch.equal(parameter, new.state_dict()[name]), name


def test_in_bfloat16_codes_and_gradients_are_close() -> None:
    encoder, stream = strong_encoder(torch.float32), stream_of(3, 7, torch.float32)
    exact, rough = encode_stream(encoder, stream, 7), encode_stream(encoder, stream, 7, torch.bfloat16)
    assert rough.dtype is torch.bfloat16
    assert 0 < float((rough.float() - exact).detach().abs().max()) < 0.05
    grad = torch.randn_like(exact)
    wanted, got = gradients(encoder, exact, grad), gradients(encoder, rough, grad.bfloat16())
    for name, value in wanted.items():
        assert got[name].dtype is torch.float32
        cosine = torch.nn.functional.cosine_similarity(got[name].flatten(), value.flatten(), 0)
        assert float(cosine) > 0.99, name


# ------------------------------------------------------------ the decoder
def test_the_packed_decoder_is_the_decoder_with_its_gradients_over_several_calls() -> None:
    decoder = Decoder().double()
    indices = PackedDecoder.indices(decoder)
    codes = [torch.randn(n, 20, dtype=torch.float64, requires_grad=True) for n in (1, 3, 4)]
    grads = [torch.randn(len(c), 300, 6, dtype=torch.float64) for c in codes]
    expected = [decoder(c) for c in codes]
    for out, grad in zip(expected, grads, strict=True):
        out.backward(grad)
    wanted = [p.grad.clone() for p in decoder.parameters()]
    wanted_codes = [c.grad.clone() for c in codes]
    decoder.zero_grad()
    packed = PackedDecoder(decoder, torch.float64, indices)
    for n, (c, grad) in enumerate(zip(codes, grads, strict=True)):
        c.grad = None
        found = packed(c)
        torch.testing.assert_close(found, expected[n], rtol=0, atol=1e-12)
        found.backward(grad)
        torch.testing.assert_close(c.grad, wanted_codes[n], rtol=1e-12, atol=1e-12)
        assert all(p.grad is None for p in decoder.parameters())
    packed.finish()
    for parameter, value in zip(decoder.parameters(), wanted, strict=True):
        torch.testing.assert_close(parameter.grad, value, rtol=1e-12, atol=1e-12 * float(value.abs().max()))


def test_gradients_of_the_packed_decoder_add_to_those_there_are() -> None:
    decoder = Decoder()
    indices = PackedDecoder.indices(decoder)
    codes = torch.randn(2, 20)
    for _ in range(2):
        packed = PackedDecoder(decoder, torch.float32, indices)
        packed(codes).sum().backward()
        packed.finish()
    twice = [p.grad.clone() for p in decoder.parameters()]
    decoder.zero_grad()
    decoder(codes).sum().backward()
    for parameter, value in zip(decoder.parameters(), twice, strict=True):
        torch.testing.assert_close(2 * parameter.grad, value, rtol=1e-4, atol=1e-4)


def test_in_bfloat16_the_packed_decoder_is_close() -> None:
    decoder, codes = Decoder(), torch.randn(5, 20)
    packed = PackedDecoder(decoder, torch.bfloat16, PackedDecoder.indices(decoder))
    rough, exact = packed(codes).float(), decoder(codes)
    assert 0 < float((rough - exact).detach().abs().max()) < 0.05
    rough.sum().backward()
    packed.finish()
    assert all(p.grad.dtype is torch.float32 for p in decoder.parameters())


# ------------------------------------------------------------ the networks
def test_there_are_112_703_parameters() -> None:
    nets = Networks(learning_rate=1e-3, seed=0, device=CPU)
    assert sum(p.numel() for module in nets.modules for p in module.parameters()) == PARAMETERS == 112_703
    held = [p for optimizer in nets.optimizers for group in optimizer.param_groups for p in group["params"]]
    assert len(held) == len({id(p) for p in held})
    assert sum(p.numel() for p in held) == PARAMETERS


def test_a_seed_names_the_networks_and_leaves_torchs_own_numbers_alone() -> None:
    state = torch.random.get_rng_state()
    one, same, other = (Networks(learning_rate=1e-3, seed=seed, device=CPU) for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(one.encoder.code.weight, same.encoder.code.weight)
    assert not torch.equal(one.encoder.code.weight, other.encoder.code.weight)


def test_the_decoder_mirrors_the_encoder() -> None:
    codes = Encoder()(torch.randn(2, 300, 6))
    assert codes.shape == (2, 20)
    assert Decoder()(codes).shape == (2, 300, 6)


def test_log_probabilities_are_those_of_a_normal_distribution() -> None:
    actions, means = torch.randn(5, 3, 4, dtype=torch.float64), torch.randn(5, 3, 4, dtype=torch.float64)
    expected = torch.distributions.Normal(means, 0.5).log_prob(actions).sum(-1)
    torch.testing.assert_close(log_prob(actions, means), expected, rtol=1e-6, atol=1e-6)


def test_an_observation_is_a_window_and_targets_and_is_not_copied() -> None:
    flat = torch.arange(2 * 1804.0).view(2, 1804)
    window, targets = split(flat)
    assert window.shape == (2, 300, 6)
    assert targets.tolist() == flat[:, 1800:].tolist()
    assert window.data_ptr() == flat.data_ptr()
    assert torch.equal(window[1, 7], flat[1, 42:48])
