"""Forward and backward on the tape, against counts made by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rlmem.core.layers import Chain, infer, parse_layers
from rlmem.core.quantity import Quantity
from rlmem.model.autograd import Autograd, saved_floats
from rlmem.model.learner import Learner, Network
from rlmem.model.tape import Tape

BATCH = Quantity.of(8, "batch", "test")


def chain(*texts: str, shape: tuple[int, ...] = (10,)) -> Chain:
    return infer(parse_layers(list(texts)), shape)


def live(tape: Tape) -> dict[str, int]:
    return dict(tape._totals)


def test_a_linear_layer_keeps_its_input() -> None:
    assert saved_floats(chain("linear 4")) == 10


def test_an_mlp_keeps_its_input_and_each_activation_once() -> None:
    assert saved_floats(chain("linear 64", "relu", "linear 32", "tanh", "linear 4")) == 10 + 64 + 32


def test_an_activation_that_needs_its_input_keeps_both_sides() -> None:
    assert saved_floats(chain("linear 64", "gelu", "linear 4")) == 10 + 64 + 64


def test_a_view_keeps_nothing_of_its_own() -> None:
    small = (2, 6, 6)
    assert saved_floats(chain("conv2d 3 k3", "relu", "flatten", "linear 4", shape=small)) == 72 + 48


def test_pooling_keeps_indices_of_eight_bytes() -> None:
    assert saved_floats(chain("maxpool2d k2 s2", shape=(1, 4, 4))) == 16 + 2 * 4


def test_an_lstm_keeps_its_gates_cells_and_output() -> None:
    assert saved_floats(chain("lstm 5")) == 10 + 5 + 6 * 5


def test_an_empty_chain_keeps_nothing() -> None:
    assert saved_floats(chain()) == 0


def test_a_forward_pass_holds_what_the_graph_saves_and_its_output() -> None:
    tape = Tape()
    net = chain("linear 64", "relu", "linear 32", "tanh", "linear 4")
    Autograd(tape, device="ram", value_bytes=4).forward(net, BATCH, grad=True)
    assert live(tape)["ram"] == (64 + 32 + 4) * 8 * 4


def test_without_gradients_only_the_output_survives() -> None:
    tape = Tape()
    net = chain("linear 64", "relu", "linear 32", "tanh", "linear 4")
    with tape.phase("collect"):
        Autograd(tape, device="ram", value_bytes=4).forward(net, BATCH, grad=False)
    assert live(tape)["ram"] == 4 * 8 * 4
    assert tape.ledger().peaks()[0].expected_bytes == (64 + 64) * 8 * 4


def test_half_precision_halves_activations_but_not_gradients() -> None:
    tape = Tape()
    autograd = Autograd(tape, device="vram", value_bytes=2)
    run = autograd.forward(chain("linear 4"), BATCH, grad=True)
    assert live(tape)["vram"] == 4 * 8 * 2
    gradients = autograd.backward(run)
    assert live(tape)["vram"] == sum(block.amount.value for block in gradients) == 44 * 4


def test_a_network_passed_through_creates_no_gradients() -> None:
    tape = Tape()
    autograd = Autograd(tape, device="ram", value_bytes=4)
    assert autograd.backward(autograd.forward(chain("linear 4"), BATCH, grad=True), weights=False) == []
    assert live(tape)["ram"] == 0


mlp = st.lists(
    st.sampled_from(
        ["linear 3", "linear 7", "relu", "tanh", "gelu", "silu", "identity", "layernorm", "dropout", "lstm 4", "gru 2"]
    ),
    max_size=7,
).map(lambda texts: chain(*texts))
conv = st.lists(
    st.sampled_from(
        ["conv2d 3 k3 p1", "relu", "leakyrelu", "maxpool2d k2", "avgpool2d k2", "batchnorm", "convt2d 2 k3"]
    ),
    max_size=5,
).map(lambda texts: chain(*texts, "flatten", "linear 2", shape=(2, 8, 8)))
sequence = st.lists(st.sampled_from(["conv1d 3 k3 p1", "relu", "convt1d 2 k3", "batchrenorm"]), max_size=5).map(
    lambda texts: chain(*texts, shape=(2, 9))
)


@given(
    net=mlp | conv | sequence, device=st.sampled_from(["ram", "vram"]), input_grad=st.booleans(), owned=st.booleans()
)
def test_nothing_is_left_after_backward_and_zero_grad(net: Chain, device: str, input_grad: bool, owned: bool) -> None:
    tape = Tape()
    autograd = Autograd(tape, device=device, value_bytes=4)
    learner = Learner(tape, device=device, optimizer="sgd", optimizer_origin="test")
    network = Network(name="net", chains={"net": net})
    with tape.phase("update"):
        for _ in range(2):
            source = autograd.tensor("batch.float", BATCH, 10, "input") if owned else None
            run = autograd.forward(net, BATCH, grad=True, source=source)
            learner.zero_grad(network)
            learner.keep_gradients(network, autograd.backward(run, input_grad=input_grad))
            learner.step(network)
        assert live(tape)[device] == net.parameters * 4
        learner.zero_grad(network)
    assert live(tape) == {"ram": 0, "vram": 0}
    assert not tape._live


@given(net=mlp | conv | sequence, grad=st.booleans())
def test_dropping_a_pass_gives_everything_back(net: Chain, grad: bool) -> None:
    tape = Tape()
    autograd = Autograd(tape, device="ram", value_bytes=4)
    autograd.drop(autograd.forward(net, BATCH, grad=grad))
    assert not tape._live


@given(net=mlp | conv | sequence)
def test_the_graph_never_holds_less_than_the_saved_values_of_its_own_tensors(net: Chain) -> None:
    tape = Tape()
    Autograd(tape, device="vram", value_bytes=4).forward(net, BATCH, grad=True)
    own = saved_floats(net) - (net.ops[0].in_floats if net.ops else 0)
    assert live(tape)["vram"] >= own * 8 * 4
